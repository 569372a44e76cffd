# Completion of numamirror for bash 4.4 and newer. In ~/.bashrc:
#     eval "$(numamirror completion bash)"

_numamirror() {
    local i kind value current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    # Behind "numamirror run ... --" stands a command line of its own.
    if [[ ${COMP_WORDS[1]} == run ]] && declare -F _command_offset >/dev/null; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [[ ${COMP_WORDS[i]} == -- ]]; then
                _command_offset $((i + 1))
                return
            fi
        done
    fi
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
        _NUMAMIRROR_COMPLETE=bash_complete "$1" 2>/dev/null)
    if [[ ${COMP_WORDS[1]} == run && ${#COMPREPLY[@]} == 0 && $current != -* ]]; then
        compopt -o default 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$current" | sort -u)
    fi
}

complete -o nosort -F _numamirror numamirror
