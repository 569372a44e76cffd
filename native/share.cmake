# What man(1), shells and people look for below the prefix of an installation: only in a wheel.
set(NM_REPOSITORY ${CMAKE_CURRENT_SOURCE_DIR}/..)
set(NM_COMPLETIONS ${NM_REPOSITORY}/numamirror_cli/completions)
set(NM_SHARE ${SKBUILD_DATA_DIR}/share)

file(GLOB NM_MAN_PAGES CONFIGURE_DEPENDS ${NM_REPOSITORY}/man/*.1)
install(FILES ${NM_MAN_PAGES} DESTINATION ${NM_SHARE}/man/man1)
install(FILES ${NM_COMPLETIONS}/numamirror.bash RENAME numamirror
        DESTINATION ${NM_SHARE}/bash-completion/completions)
install(FILES ${NM_COMPLETIONS}/_numamirror DESTINATION ${NM_SHARE}/zsh/site-functions)
install(FILES ${NM_COMPLETIONS}/numamirror.fish DESTINATION ${NM_SHARE}/fish/vendor_completions.d)
file(GLOB NM_DOCUMENTS CONFIGURE_DEPENDS ${NM_REPOSITORY}/docs/*.md)
install(FILES ${NM_REPOSITORY}/CHANGELOG.md ${NM_DOCUMENTS} DESTINATION ${NM_SHARE}/doc/numamirror)
install(DIRECTORY ${NM_REPOSITORY}/docs/recipes ${NM_REPOSITORY}/docs/fleet
        DESTINATION ${NM_SHARE}/doc/numamirror)
