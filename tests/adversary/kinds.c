/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds on the cost of each kind of forged packet: docs/protocol.md section 11 in numbers. A cost that is
 * not named is 0, beyond adversary_slack(). Bounds are for all packets of the kind together.
 */
#include "adversary.h"

#include <stdio.h>

/*
 * An address that has not answered gets only short packets, each hardly longer than the packet that caused
 * it.
 */
#define SHORT 120
#define TO_OWN(packets) .own = (packets), .own_bytes = (packets)*SHORT
#define TO_THIRD(packets) .third = (packets), .third_bytes = (packets)*SHORT

#define NOTHING .third = 0

/* Packets that a receiver may still need: those of the time between two reports, and a margin. */
#define NEEDED 400

/* clang-format off */
#define KIND(name, profile, announces, count, gap_us, ...) \
    {#name, adversary_##name, ADVERSARY_##profile, ADVERSARY_##announces, count, gap_us, {__VA_ARGS__}}
/* clang-format on */

const struct adversary_kind adversary_kinds[] = {
    /* --- data: a forged packet takes the place of a genuine one, and nothing else is lost */
    KIND(data_far, PLAIN, OWN, 1, 1300, .operations = 2000000),
    KIND(data_far, LOSSY, OWN, 20, 1300, .asked = 300, .events = 20, .operations = 80000000),
    KIND(data_edge, PLAIN, OWN, 1, 1300, .operations = 2000000),
    KIND(data_beyond, PLAIN, OWN, 50, 1300, NOTHING),
    KIND(data_next, PLAIN, OWN, 5, 5100, .lost = 10, .forged = 10),
    KIND(data_ahead, PLAIN, OWN, 5, 5100, .asked = 30, .lost = 10, .forged = 10, .events = 12,
         .operations = 2500000),
    KIND(data_contradicts, PLAIN, OWN, 5, 5100, .lost = 40, .named = 40, .events = 40, .operations = 1000000),
    KIND(data_unrepaired, PLAIN, OWN, 1, 5100, .lost = 4, .forged = 2, .named = 4, .events = 4),
    KIND(data_replayed, PLAIN, OWN, 200, 1300, NOTHING),
    KIND(data_frames, PLAIN, OWN, 5, 5100, .lost = 100, .forged = 100, .named = 100, .events = 40),
    KIND(data_middle, PLAIN, OWN, 5, 5100, .lost = 40, .named = 40, .events = 40),
    KIND(data_long, PLAIN, OWN, 5, 5100, .lost = 40, .named = 40, .events = 40),
    KIND(data_tags, LOSSY, OWN, 300, 1300, .events = 600, .operations = 15000000),
    KIND(data_tags, NEWCOMER, OWN, 64, 1300, .events = 600, .operations = 15000000),
    KIND(data_tag, LOSSY, OWN, 10000, 20, NOTHING),
    KIND(data_tag, NEWCOMER, OWN, 10000, 20, NOTHING),
    /* --- heartbeats: corrected by the next genuine one */
    KIND(heartbeat_replayed, PLAIN, OWN, 50, 1300, NOTHING),
    KIND(heartbeat_second, LOSSY, OWN, 200, 7300, NOTHING),
    KIND(heartbeat_clock, LOSSY, OWN, 20, 37000, NOTHING),
    KIND(heartbeat_past, LOSSY, OWN, 20, 37000, NOTHING),
    KIND(heartbeat_lead, PLAIN, OWN, 10, 7300, .asked = 40, .events = 12, .operations = 15000000),
    KIND(heartbeat_lead, LOSSY, OWN, 50, 17300, .asked = 220, .events = 40, .operations = 75000000),
    KIND(heartbeat_lead_max, PLAIN, OWN, 10, 7300, .asked = 40, .events = 12, .operations = 15000000),
    KIND(heartbeat_lead_low, LOSSY, OWN, 50, 7300, NOTHING),
    KIND(heartbeat_receivers, PLAIN, OWN, 50, 7300, NOTHING),
    KIND(heartbeat_end_below, PLAIN, OWN, 1, 5100, NOTHING),
    /* The session ends, and resumes where it ended. */
    KIND(heartbeat_end, PLAIN, OWN, 1, 5100, .events = 12, .ended = 2, .operations = 2500000),
    KIND(heartbeat_end_ahead, PLAIN, OWN, 1, 5100, .asked = 10, .reported = 20, .events = 12,
         .operations = 200000),
    KIND(heartbeat_interval, PLAIN, OWN, 50, 7300, NOTHING),
    KIND(heartbeat_rtt, LOSSY, OWN, 100, 17300, .repaired = 20, .operations = 500000),
    KIND(heartbeat_topics, PLAIN, OWN, 10, 7300, .asked = 60),
    KIND(heartbeat_topics, LOSSY, OWN, 100, 17300, .asked = 500),
    KIND(heartbeat_report, PLAIN, OWN, 20, 17300, .reported = 800),
    KIND(heartbeat_held, PLAIN, OWN, 100, 1300, NOTHING),
    KIND(heartbeat_assured, PLAIN, OWN, 10, 17300, NOTHING),
    KIND(heartbeat_address, PLAIN, THIRD, 100, 7300, TO_THIRD(100)),
    KIND(heartbeat_address, LOSSY, THIRD, 100, 7300, TO_THIRD(100)),
    KIND(heartbeat_address, LOSSY, SPOOFED, 100, 7300, TO_THIRD(100)),
    KIND(heartbeat_foreign, PLAIN, OWN, 50, 1300, NOTHING),
    KIND(heartbeat_trail, PLAIN, OWN, 10, 7300, .asked = 40, .events = 12, .operations = 15000000),
    KIND(heartbeat_messages, LOSSY, OWN, 50, 7300, NOTHING),
    /* --- forged sessions: each costs one event, and one more at its end */
    KIND(session_old, PLAIN, THIRD, 1, 5100, TO_THIRD(10), .events = 4, .operations = 1050000),
    KIND(session_old, PLAIN, SPOOFED, 1, 5100, TO_THIRD(10), .events = 4, .operations = 1050000),
    KIND(session_young, PLAIN, OWN, 1, 5100, TO_OWN(10), .events = 4, .operations = 5000000),
    KIND(session_young, PLAIN, THIRD, 1, 5100, TO_THIRD(10), .events = 4, .operations = 5000000),
    KIND(session_young, PLAIN, SPOOFED, 1, 5100, TO_THIRD(10), .events = 4, .operations = 5000000),
    KIND(session_young, LOSSY, SPOOFED, 100, 5100, TO_THIRD(1600), .events = 400, .ended = 200,
         .operations = 200000000),
    KIND(session_many, NEWCOMER, OWN, 64, 1300, TO_OWN(1000), .late = 400, .events = 300, .ended = 130,
         .operations = 30000000),
    KIND(session_followed, LOSSY, OWN, 500, 1300, TO_OWN(2000), .forged = 1000, .events = 10,
         .operations = 20000000),
    /* --- NAKs: in a receiver's name, for packets that it may need; others cost nothing */
    KIND(nak_all, PLAIN, OWN, 1, 5100, TO_OWN(1), .repaired = NEEDED, .events = 4, .operations = 1000000),
    KIND(nak_all, PLAIN, THIRD, 1, 5100, TO_THIRD(1), .repaired = NEEDED, .events = 4, .operations = 1000000),
    KIND(nak_all, PLAIN, SPOOFED, 1, 5100, TO_THIRD(1), .repaired = NEEDED, .events = 4,
         .operations = 1000000),
    KIND(nak_invented, PLAIN, OWN, 10, 5100, TO_OWN(10), .operations = 500000),
    KIND(nak_invented, LOSSY, THIRD, 100, 5100, TO_THIRD(100), .operations = 5000000),
    KIND(nak_invented, LOSSY, SPOOFED, 100, 5100, TO_THIRD(100), .operations = 5000000),
    KIND(nak_short, PLAIN, THIRD, 10, 5100, TO_THIRD(10), .repaired = 10, .operations = 500000),
    KIND(nak_genuine, LOSSY, OWN, 10, 5100, .repaired = 10 * NEEDED, .events = 8, .operations = 5000000),
    KIND(nak_random, LOSSY, OWN, 38, 5100, .repaired = 38 * NEEDED, .events = 16, .operations = 15000000),
    KIND(nak_overlap, LOSSY, OWN, 10, 5100, .repaired = 10 * NEEDED, .events = 8, .operations = 5000000),
    KIND(nak_beyond, LOSSY, OWN, 10, 5100, .events = 8),
    KIND(nak_gone, PLAIN, THIRD, 100, 1300, TO_THIRD(100), .events = 4),
    KIND(nak_nobody, PLAIN, OWN, 10, 5100, TO_OWN(10)),
    /* --- reports */
    KIND(status_invented, LOSSY, THIRD, 100, 1300, TO_THIRD(100), .operations = 1000000),
    KIND(status_leaving, LOSSY, OWN, 20, 17300, NOTHING),
    KIND(status_next, LOSSY, OWN, 20, 17300, .events = 20),
    KIND(status_window, LOSSY, OWN, 20, 17300, NOTHING),
    KIND(status_done, LOSSY, OWN, 20, 17300, NOTHING),
    KIND(status_echo, LOSSY, OWN, 50, 7300, NOTHING),
    KIND(status_acknowledges, ASSURED, OWN, 20, 17300, NOTHING),
    KIND(status_crowd, LOSSY, THIRD, 4000, 100, TO_THIRD(4000), .operations = 20000000),
    KIND(status_healthy, LOSSY, OWN, 100, 7300, TO_OWN(100)),
    /* --- queries and requests */
    KIND(query, PLAIN, OWN, 50, 1300, TO_OWN(50)),
    KIND(query, PLAIN, THIRD, 50, 1300, TO_THIRD(50)),
    KIND(query, PLAIN, SPOOFED, 50, 1300, TO_THIRD(50)),
    KIND(ask, PLAIN, OWN, 50, 1300, TO_OWN(50)),
    KIND(ask, PLAIN, THIRD, 50, 1300, TO_THIRD(50)),
    KIND(ask, PLAIN, SPOOFED, 50, 1300, TO_THIRD(50)),
    KIND(ask_crowd, LATE, SPOOFED, 4000, 100, TO_THIRD(4000), .operations = 20000000),
    KIND(fetch_all, PLAIN, OWN, 1, 5100, TO_OWN(1)),
    KIND(fetch_all, PLAIN, THIRD, 1, 5100, TO_THIRD(1)),
    KIND(fetch_all, PLAIN, SPOOFED, 1, 5100, TO_THIRD(1)),
    KIND(fetch_overlap, LATE, SPOOFED, 100, 5100, TO_THIRD(100), .operations = 5000000),
    KIND(fetch_genuine, LATE, OWN, 20, 5100, TO_OWN(20), .repaired = 20 * 2500, .operations = 20000000),
    KIND(latest, KEPT, OWN, 1, 5100, TO_OWN(1)),
    KIND(latest, KEPT, SPOOFED, 20, 5100, TO_THIRD(20)),
    /* --- answers to receivers: about packets that are missing at that moment */
    KIND(reject_gone, PLAIN, OWN, 500, 530, NOTHING),
    KIND(reject_gone, LOSSY, OWN, 2000, 530, .lost = 40, .named = 40, .events = 40),
    KIND(reject_gone_max, LOSSY, OWN, 2000, 530, .lost = 40, .named = 40, .events = 40),
    KIND(reject_pending, LOSSY, OWN, 50, 1300, NOTHING),
    KIND(reject_unrepaired, LOSSY, OWN, 2000, 530, .lost = 40, .named = 40, .events = 40),
    KIND(reject_passed, LATE, OWN, 50, 530, .lost = 3000, .named = 3000, .events = 100),
    KIND(notice_suspended, LOSSY, OWN, 20, 17300, .lost = 20, .named = 20, .events = 40, .ended = 8),
    KIND(notice_expelled, PLAIN, OWN, 2, 17300, .silenced = 100, .lost = 20000, .events = 20, .ended = 8),
    KIND(notice_warned, LOSSY, OWN, 20, 17300, .events = 40),
    KIND(notice_foreign, PLAIN, OWN, 20, 17300, NOTHING),
    KIND(topics_names, LATE, OWN, 20, 1300, .events = 40),
    KIND(topics_beyond, LATE, OWN, 20, 1300, NOTHING),
    KIND(join_grant, LATE, OWN, 4, 3, .asked = 40, .lost = 3500, .named = 3500, .events = 20,
         .operations = 500000),
    KIND(join_refuse, LATE, OWN, 4, 3, .lost = 3500, .events = 20),
    /* --- stores: none exists */
    KIND(seek, PLAIN, THIRD, 100, 1300, NOTHING),
    KIND(seek, PLAIN, SPOOFED, 100, 1300, NOTHING),
    KIND(recall, PLAIN, THIRD, 100, 1300, NOTHING),
    KIND(recall, PLAIN, SPOOFED, 100, 1300, NOTHING),
    KIND(offer, LOSSY, THIRD, 100, 1300, NOTHING),
    KIND(offer, LATE, SPOOFED, 100, 1300, NOTHING),
    KIND(offer_gone, LOSSY, THIRD, 500, 530, TO_THIRD(40), .lost = 40, .late = 4000, .named = 40,
         .events = 40),
    KIND(offer_gone, LOSSY, SPOOFED, 500, 530, TO_THIRD(40), .lost = 40, .late = 4000, .named = 40,
         .events = 40),
    KIND(offer_answer, LOSSY, OWN, 100, 1300, NOTHING),
    KIND(offer_answer, LATE, OWN, 4, 3, NOTHING),
    KIND(absent, LOSSY, OWN, 100, 1300, NOTHING),
    KIND(kept_records, KEPT, OWN, 20, 7, .lost = 20, .forged = 20, .events = 20),
    /* --- connections */
    KIND(connect, CALLS, OWN, 20, 5100, TO_OWN(20)),
    KIND(connect, CALLS, THIRD, 20, 5100, TO_THIRD(20)),
    KIND(connect, CALLS, SPOOFED, 20, 5100, TO_THIRD(20)),
    KIND(connect_shown, CALLS, OWN, 1, 5100, TO_OWN(2), .operations = 1000000),
    KIND(connect_shown, CALLS, SPOOFED, 1, 5100, TO_THIRD(2), .operations = 1000000),
    KIND(connect_shown, CALLS, SPOOFED, 100, 5100, TO_THIRD(200), .operations = 10000000),
    KIND(connect_crowd, CALLS, SPOOFED, 4000, 100, TO_THIRD(4000)),
    KIND(accept, CALLS, SPOOFED, 20, 5100, TO_THIRD(20)),
    KIND(refuse, CALLS, OWN, 20, 5100, NOTHING),
    KIND(close_left, CALLS, OWN, 1, 5100, TO_OWN(1), .silenced = 100, .lost = 10000, .events = 4, .ended = 2),
    KIND(close_unknown, CALLS, THIRD, 50, 5100, TO_THIRD(50)),
    KIND(close_unknown, CALLS, SPOOFED, 50, 5100, TO_THIRD(50)),
    /* --- invalid packets */
    KIND(cut, LOSSY, OWN, 2000, 100, NOTHING),
    KIND(noise, LOSSY, OWN, 2000, 100, NOTHING),
    KIND(flipped, LOSSY, OWN, 2000, 130, .asked = 400, .silenced = 20, .repaired = 2000, .lost = 40,
         .named = 40, .events = 60, .ended = 4, .operations = 40000000),
    KIND(extended, LOSSY, OWN, 2000, 100, NOTHING),
    KIND(versions, LOSSY, OWN, 2000, 100, NOTHING),
    KIND(bounds, LOSSY, OWN, 2000, 130, .asked = 400, .silenced = 20, .repaired = 2000, .lost = 40,
         .named = 40, .events = 60, .ended = 4, .operations = 40000000),
    KIND(flipped, CALLS, OWN, 2000, 130, .asked = 100, .events = 10),
    KIND(bounds, CALLS, OWN, 2000, 130, .asked = 100, .events = 10),
};

const int adversary_kinds_count = (int)(sizeof adversary_kinds / sizeof adversary_kinds[0]);

struct adversary_cost adversary_slack(const struct adversary_kind *kind)
{
    return (struct adversary_cost){
        .asked = 10,
        .reported = 10 + 2 * (uint64_t)kind->count,
        .silenced = 10,
        .repaired = 40,
        .operations = 20000 + 10000 * (uint64_t)kind->count,
    };
}

bool adversary_is_survived(const struct adversary_kind *kind)
{
    return kind->most.lost <= 100 && kind->most.silenced == 0;
}

static bool slow_one(const struct adversary_kind *kind, const char *name, uint64_t cost, uint64_t most,
                     uint64_t slack, bool all)
{
    const bool passed = cost <= most + slack;

    if (all ? cost > 0 : !passed)
        (void)printf("%s %-22s x%-5u %-10s %12llu, at most %llu\n", passed ? "     " : "BEYOND", kind->name,
                     kind->count, name, (unsigned long long)cost, (unsigned long long)(most + slack));
    return passed;
}

bool adversary_judge(const struct adversary_kind *kind, const struct adversary_cost *cost, bool all)
{
    const struct adversary_cost slack = adversary_slack(kind);
    bool passed = true;

#define ADVERSARY_JUDGE(name, text) \
    passed = slow_one(kind, #name, cost->name, kind->most.name, slack.name, all) && passed;
    ADVERSARY_COSTS(ADVERSARY_JUDGE)
#undef ADVERSARY_JUDGE
    return passed;
}
