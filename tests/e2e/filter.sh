# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of receivers that want a part of what is sent, which run.sh sources.

# shellcheck disable=SC2034
filter_tests=(a_hundredth_of_ten_thousand_topics_comes_whole_under_loss)

# filtered PREFIX NAME CHANNEL [OPTION...]: a receiver.
filtered() {
    run_on "$1" "$2" "$programs/e2e_filter" receive "${@:3}"
    says "$2" listening
}

# Exactly what was wanted of so many messages.
is_filtered() {
    is "$1" errors == 0 && is "$1" lost == 0 && is "$1" next == "$2" && is "$1" messages == "$3"
}

# One subscribes to a pattern and a name, one to names that do not exist, one to all.
a_hundredth_of_ten_thousand_topics_comes_whole_under_loss() {
    need_nft || return
    local part none all sender count=$((some * 2))
    count=$((count - count % 10000))
    filtered "$HOST_B" part "$(channel "$IF_B" 96)" --subjects 7 --also 8 && part=$last || return
    filtered "$HOST_B" none "$(channel "$IF_B" 96)" --subjects 100 && none=$last || return
    filtered "$HOST_B" all "$(channel "$IF_B" 96)" && all=$last || return
    lose 5 || return
    run_on "$HOST_A" sender "$programs/e2e_filter" send "$(channel "$IF_A" 96 "$keep")" --messages "$count"
    sender=$last
    ends "$sender" && ends "$part" && ends "$none" && ends "$all" || return
    is_filtered part "$count" $((count / 100 + count / 10000)) && is part told == 101 && is none told == 0 &&
        is part messages_refused == $((count - count / 100 - count / 10000)) && is part packets_recovered ">" 0 &&
        is none errors == 0 && is none messages == 0 && is none messages_refused == "$count" && is_filtered all "$count" "$count"
}
