# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts of the benchmarks share: how options are read, and refused. Source it from bash, with script set to the command
# as it is typed, such as "bench/run slow":
#
#   refuse TEXT...                        Says what is wrong, and ends the script with 2.
#   parse_options "NAME..." "$@"          --NAME VALUE, or --NAME=VALUE, sets the variable NAME, with _ for -; --help calls usage.
#   check_words NAME LIST WORD...         LIST: of these words, with commas between
#   check_number NAME VALUE MIN MAX SAMPLE
#   check_numbers NAME LIST MIN MAX SAMPLE   with commas between
#   check_seconds NAME VALUE MIN MAX      with decimals; MIN and MAX in milliseconds
#   check_cpus VALUE COUNT                numbers of CPUs with commas between
#   check_options VALUE                   options of a channel
#   check_file NAME FILE                  that it can be written

refuse() {
    printf '%s: %s\n' "$script" "$*" >&2
    printf "Try '%s --help'.\n" "$script" >&2
    exit 2
}

parse_options() {
    local parse_known=" $1 " # no option is called so
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --help | -h) usage && exit 0 ;;
        --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
        esac
        [[ $1 =~ ^--[a-z-]+$ && $parse_known == *" ${1#--} "* ]] || refuse "$1: no such option"
        [ $# -gt 1 ] && [ -n "$2" ] || refuse "$1: needs a value"
        set -- "${1#--}" "${@:2}"
        printf -v "${1//-/_}" %s "$2"
        shift 2
    done
}

check_words() {
    local name=$1 list=$2 word
    shift 2
    for word in ${list//,/ } $([[ $list =~ ^[^,]+(,[^,]+)*$ ]] || echo ,); do
        [[ " $* " == *" $word "* ]] || refuse "$name $list: must be of these, with commas between: $*"
    done
}

# Numbers with commas between, each within bounds. Lengths first: bash's arithmetic wraps.
check_numbers() {
    local name=$1 list=$2 min=$3 max=$4 number
    [[ $list =~ ^[0-9]+(,[0-9]+)*$ ]] || refuse "$name $list: must be numbers with commas between, such as $5"
    for number in ${list//,/ }; do
        [[ ${#number} -le 12 ]] && ((10#$number >= min && 10#$number <= max)) ||
            refuse "$name $list: $number is not between $min and $max"
    done
}

check_number() {
    [[ $2 =~ ^[0-9]+$ ]] || refuse "$1 $2: must be one number, such as $5"
    check_numbers "$@"
}

# milliseconds_of SECONDS: -1 if that is none.
milliseconds_of() {
    local decimals
    if [[ $1 =~ ^([0-9]{1,4})(\.([0-9]{1,3}))?$ ]]; then
        decimals=${BASH_REMATCH[3]}000
        printf %d $((10#${BASH_REMATCH[1]} * 1000 + 10#${decimals:0:3}))
    else
        printf %d -1
    fi
}

check_seconds() {
    local milliseconds
    milliseconds=$(milliseconds_of "$2")
    ((milliseconds >= $3 && milliseconds <= $4)) ||
        refuse "$1 $2: must be seconds from $(seconds_of "$3") to $(seconds_of "$4"), with at most three decimals"
}

# seconds_of MILLISECONDS: as people write them.
seconds_of() {
    local text
    printf -v text '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
    while [[ $text == *.*0 ]]; do
        text=${text%0}
    done
    printf %s "${text%.}"
}

check_cpus() {
    local numbers=${1//[^,]/}
    [[ $1 =~ ^[0-9]{1,4}(,[0-9]{1,4})*$ ]] && ((${#numbers} + 1 == $2)) ||
        refuse "--cpus $1: must be $2 numbers of CPUs with commas between, such as $([ "$2" = 2 ] && echo 0,1 || echo 0,1,1)"
}

check_options() {
    [[ ! $1 =~ [[:space:]?] ]] || refuse "--options $1: must be KEY=VALUE with & between, without ? and spaces"
}

check_file() {
    local directory
    directory=$(dirname "$2")
    [ -d "$directory" ] || refuse "$1 $2: there is no directory $directory"
    [ ! -d "$2" ] || refuse "$1 $2: is a directory; name a file in it"
    [ -w "$directory" ] || refuse "$1 $2: no permission to write in $directory"
}
