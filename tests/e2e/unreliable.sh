# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of unreliable topics.

# unreliable LOSS RUN [COUNT]: a stream of runs of so many messages, on a reliable topic and an unreliable one in turn, or on the latter
# only.
unreliable() {
    local receiver sender impaired count=${3:-$some}
    lossy "$1" || return
    run_on "$HOST_B" receiver "$programs/e2e_unreliable" receive "$(lossy_channel "$IF_B")" --run "$2"
    receiver=$last
    says receiver listening || return
    run_on "$HOST_A" sender "$programs/e2e_unreliable" send "$(channel "$IF_A" "$keep")" --messages "$count" --run "$2" \
        --rate $((rate / (fewer > 1 ? 1 : 2)))
    sender=$last
    ends "$sender" && ends "$receiver" || return
    is receiver next == "$count" && accounted receiver "$count" && is receiver lost ">" 0 &&
        is receiver data_malformed == 0 || return
    note "lost $(number receiver lost) of $count messages in $(number receiver gaps) gaps, asked for $(number receiver nak_packets) packets" \
        "for $(number receiver packets_unreliable) lost"
}

e2e unreliable_topics_lose_beside_a_reliable_one needs=loss \
    not=bypass:"the short one is the same with fewer messages; it passes if it is named" \
    not=shm:"the short one is the same with fewer messages"
unreliable_topics_lose_beside_a_reliable_one() {
    unreliable 5 10 && is receiver packets_recovered ">" 0 && is sender packets_repaired ">" 0
}

e2e unreliable_topics_lose_beside_a_reliable_one_shortly needs=loss over=bypass,shm also=vma
unreliable_topics_lose_beside_a_reliable_one_shortly() {
    unreliable 5 10 $((some / 4)) && is receiver packets_recovered ">" 0 && is sender packets_repaired ">" 0
}

# The only repairs are the announcements of the two topics, in at most one packet each.
e2e unreliable_topics_are_never_repaired needs=loss not=roce:"what the receiver does is the same over each transport" \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=shm:"the short one is the same with fewer messages"
unreliable_topics_are_never_repaired() {
    unreliable 20 0 && is receiver packets_recovered "<=" 2 && is sender packets_repaired "<" 20
}
