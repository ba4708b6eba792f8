# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of receivers with filters.

# filtered PREFIX NAME CHANNEL [OPTION...]: starts a receiver.
filtered() {
    run_on "$1" "$2" "$programs/e2e_filter" receive "${@:3}"
    says "$2" listening
}

# Exactly the matching messages of so many were delivered.
is_filtered() {
    is "$1" errors == 0 && is "$1" lost == 0 && is "$1" next == "$2" && is "$1" messages == "$3"
}

# One receiver subscribes to a pattern and a name, one to names that do not exist, one to all topics.
e2e a_hundredth_of_ten_thousand_topics_arrives_under_loss needs=nft hosts=4 \
    not=bypass:"the short ones are the same with fewer topics; it passes if it is named" \
    not=roce:"so many topics take a while here; it passes if it is named" \
    not=shm:"the short ones are the same with fewer topics and one receiver"
a_hundredth_of_ten_thousand_topics_arrives_under_loss() {
    local part none all sender count=$((some * 2))
    count=$((count - count % 10000))
    filtered "$HOST_B" part "$(channel "$IF_B")" --subjects 7 --also 8 && part=$last || return
    filtered "$HOST_C" none "$(channel "$IF_B")" --subjects 100 && none=$last || return
    filtered "$HOST_D" all "$(channel "$IF_B")" && all=$last || return
    lose 5 || return
    run_on "$HOST_A" sender "$programs/e2e_filter" send "$(channel "$IF_A" "$keep")" --messages "$count" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$part" && ends "$none" && ends "$all" || return
    is_filtered part "$count" $((count / 100 + count / 10000)) && is part told == 101 && is none told == 0 &&
        is part messages_refused == $((count - count / 100 - count / 10000)) && is part packets_recovered ">" 0 &&
        is none errors == 0 && is none messages == 0 && is none messages_refused == "$count" &&
        is_filtered all "$count" "$count"
}

# The messages have one of a hundred labels, in runs. One receiver selects a label by mask, which skips most packets; one the same
# by bitmap; one by selector; one takes all.
e2e labels_bitmaps_and_selectors_choose_under_loss needs=nft hosts=5 not=roce:"for time; it passes if it is named" \
    not=bypass:"the short ones are the same with one receiver; it passes if it is named" \
    not=shm:"the short ones are the same with fewer topics and one receiver"
labels_bitmaps_and_selectors_choose_under_loss() {
    local label bit select all sender count=$(((some * 2 + 6399) / 6400 * 6400))
    filtered "$HOST_B" label "$(channel "$IF_B")" --topics 3 --label 7 && label=$last || return
    filtered "$HOST_C" bit "$(channel "$IF_B")" --topics 3 --bit 7 && bit=$last || return
    filtered "$HOST_D" select "$(channel "$IF_B")" --topics 3 --select 7 && select=$last || return
    filtered "$HOST_E" all "$(channel "$IF_B")" --topics 3 && all=$last || return
    lose 5 || return
    run_on "$HOST_A" sender "$programs/e2e_filter" send "$(channel "$IF_A" "$keep")" --messages "$count" --rate "$rate" \
        --topics 3 --labels 1
    sender=$last
    ends "$sender" && ends "$label" && ends "$bit" && ends "$select" && ends "$all" || return
    is_filtered label "$count" $((count / 100)) && is label messages_rejected == $((count - count / 100)) &&
        is label packets_skipped ">" 100 && is label packets_recovered ">" 0 && is label data_malformed == 0 &&
        is_filtered bit "$count" $((count / 100)) && is bit messages_rejected == $((count - count / 100)) &&
        is_filtered select "$count" $((count / 100)) && is select messages_rejected == $((count - count / 100)) &&
        is_filtered all "$count" "$count" || return
    note "passed over $(number label packets_skipped) of $(number label packets_received) packets whole"
}

# One receiver uses all filters: it selects the second of three topics, and one of a hundred labels.
e2e subjects_labels_bitmaps_and_selectors_choose_together needs=loss over=bypass,shm also=vma
subjects_labels_bitmaps_and_selectors_choose_together() {
    local receiver sender impaired count=25600 run number wanted=0
    for ((run = 7 * 64; run < count; run += 6400)); do
        for ((number = run; number < run + 64; number++)); do
            wanted=$((wanted + (number % 3 == 1)))
        done
    done
    lossy 5 && filtered "$HOST_B" receiver "$(lossy_channel "$IF_B")" --topics 3 --subjects 1 --label 7 --bit 7 --select 7 &&
        receiver=$last || return
    run_on "$HOST_A" sender "$programs/e2e_filter" send "$(channel "$IF_A" "$keep")" --messages "$count" --rate "$rate" \
        --topics 3 --labels 1
    sender=$last
    ends "$sender" && ends "$receiver" && is_filtered receiver "$count" "$wanted" && is receiver told == 1 &&
        is receiver messages_refused ">" 0 && is receiver messages_rejected ">" 0 && is receiver packets_skipped ">" 0 &&
        is receiver packets_recovered ">" 0 && is receiver data_malformed == 0 || return
    note "$(number receiver messages) of $count messages; passed over $(number receiver packets_skipped) packets whole"
}

# A pattern selects two of two hundred topics, a name one: all three arrive of the first half, the one of the second half.
e2e an_unsubscribed_subject_is_not_delivered also=vma
an_unsubscribed_subject_is_not_delivered() {
    local receiver sender count=10000
    filtered "$HOST_B" receiver "$(channel "$IF_B")" --topics 200 --subjects 7 --also 8 \
        --unsubscribe-at $((count / 2 - 200 + 108)) && receiver=$last || return
    run_on "$HOST_A" sender "$programs/e2e_filter" send "$(channel "$IF_A" "$keep")" --messages "$count" --rate "$rate" \
        --topics 200 --step $((count / 2))
    sender=$last
    says receiver unsubscribed && goes_on "$sender" && ends "$sender" && ends "$receiver" &&
        is_filtered receiver "$count" $((3 * count / 400 + count / 400)) && is receiver messages_refused == $((count - count / 100))
}
