# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of llm and of the programs that it runs, for bash. Commands and options are those of --help.

# _llm_options PROGRAM [COMMAND]...: prints the options.
_llm_options() {
    "$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u
}

# _llm_commands PROGRAM [COMMAND]: prints the commands, which --help lists one a line.
_llm_commands() {
    "$@" --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p'
}

# _llm_values OPTION: prints the words that an option takes; fails if it takes any value.
_llm_values() {
    case $1 in
    --transport) echo udp roce ;;
    --format) echo json pcap ;;
    --level) echo synced written received ;;
    --engine) echo auto uring thread ;;
    --full) echo stop oldest ;;
    *) return 1 ;;
    esac
}

_llm() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=("$1") at=1 words
    # Commands before the cursor: that of llm, and that of llm store.
    if [ "${1##*/}" = llm ] && ((COMP_CWORD > at)); then
        program+=("${COMP_WORDS[at++]}")
    fi
    case ${program[*]##*/} in
    llm | llm\ store | llm-store)
        if ((COMP_CWORD == at)); then
            words=$(_llm_commands "${program[@]}")
            mapfile -t COMPREPLY < <(compgen -W "$words --help" -- "$word")
            return
        fi
        [ "${program[*]##*/}" = llm ] || program+=("${COMP_WORDS[at]}")
        ;;
    esac
    if words=$(_llm_values "$before"); then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_llm_options "${program[@]}")" -- "$word")
    fi
}

complete -o default -F _llm llm llm-doctor llm-key llm-shm llm-stat llm-store
