# Completion of numamirror for fish. In ~/.config/fish/config.fish:
#     numamirror completion fish | source

function __numamirror_answers
    set -l words (commandline -opc) (commandline -ct)
    set -l answers (COMP_WORDS="$words" COMP_CWORD=(math (count $words) - 1) \
        _NUMAMIRROR_COMPLETE=zsh_complete $words[1] 2>/dev/null)
    # Three lines each: what kind, the word, its description or "_".
    while test (count $answers) -ge 3
        switch $answers[1]
            case plain
                set -l word (string replace -a '\:' ':' -- $answers[2])
                if test "$answers[3]" = _
                    echo $word
                else
                    printf '%s\t%s\n' $word $answers[3]
                end
            case file
                __fish_complete_path $words[-1]
            case dir
                __fish_complete_directories $words[-1]
        end
        set -e answers[1..3]
    end
end

# Behind "numamirror run ... --" stands a command line of its own.
function __numamirror_is_program
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test "$words[2]" = run; and contains -- -- $words[3..-1]
end

function __numamirror_program
    set -l words (commandline -opc) (commandline -ct)
    set -l dashes (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $dashes + 1)..-2]) $words[-1])
end

complete -c numamirror -f
complete -c numamirror -n 'not __numamirror_is_program' -a '(__numamirror_answers)'
complete -c numamirror -n __numamirror_is_program -a '(__numamirror_program)'
