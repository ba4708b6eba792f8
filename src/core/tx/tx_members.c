/* SPDX-License-Identifier: Apache-2.0 */
/* Departure and expiry of the receivers of a session (docs/protocol.md section 7). */
#include "core/tx/tx_internal.h"

void lli_tx_leave(struct lli_tx *tx, uint64_t receiver, lli_seq next)
{
    const uint32_t index = receiver == 0 ? LLI_MEMBER_NONE : lli_members_get(&tx->members, receiver);

    tx->group.taken = lli_min(next, tx->sent);
    if (index == LLI_MEMBER_NONE)
        return;
    lli_members_del(&tx->members, receiver);
    lli_flow_moved(&tx->flow, &tx->members, index, tx->sent);
    tx->counters.receivers_left++;
}

/*
 * A receiver's last report acknowledges first. A receiver that leaves after the end of the session stays in
 * the table while other receivers have to acknowledge the same messages: no receiver joins any more, so it
 * cannot acknowledge them again under another identity.
 */
void lli_tx_input_leaving(struct lli_tx *tx, const struct lli_wire_status *status)
{
    const uint32_t index =
        status->receiver == 0 ? LLI_MEMBER_NONE : lli_members_get(&tx->members, status->receiver);

    if (tx->config.confirms && index == LLI_MEMBER_NONE)
        return;
    lli_tx_input_acknowledgement(tx, status, index);
    if (index == LLI_MEMBER_NONE || tx->ack.waiting == 0 || !lli_tx_is_done(tx, status)) {
        lli_tx_leave(tx, status->receiver, status->next);
        return;
    }
    tx->group.taken = tx->sent;
    tx->counters.receivers_left += !tx->members.table[index].left;
    tx->members.table[index].done = tx->members.table[index].left = true;
}

lli_ns lli_tx_status_interval(const struct lli_tx *tx)
{
    return tx->config.status * lli_max(1, tx->members.count / 10);
}

/* Recomputes the group's round trip from all members. */
static void tx_rtt(struct lli_tx *tx)
{
    const lli_ns rtt = lli_members_rtt(&tx->members, &tx->group.furthest);

    if (rtt > 0)
        tx->group.rtt = rtt;
}

/* Members whose scan is worth one interval of reports: 50 us or so in 100 ms. */
enum { TX_SCAN_MEMBERS = 1024 };

/* True if the member with the greatest round trip is not known, or no longer counts. */
static bool tx_furthest_is_gone(const struct lli_tx *tx)
{
    const struct lli_member *furthest = tx->group.furthest;

    return furthest == NULL || !lli_member_counts(furthest) || furthest->lagging;
}

/*
 * Of very many members all are scanned rarely: else the scans would take most of the time while their round
 * trips fall, as after many have joined at a time. Until then the group's round trip stays too long.
 */
static void tx_rtt_soon(struct lli_tx *tx, lli_ns now)
{
    if (tx->members.count > LLI_MEMBERS_EXPIRE_MAX && now < tx->group.scan_at)
        return;
    tx->group.scan_at = now + tx->config.status * (1 + tx->members.count / TX_SCAN_MEMBERS);
    tx_rtt(tx);
}

/*
 * Scans all members only if the one with the greatest round trip has come nearer or no longer counts, which
 * is rare.
 */
void lli_tx_measured(struct lli_tx *tx, const struct lli_member *member, lli_ns now)
{
    if (tx->members.count == 1 || member->rtt >= tx->group.rtt) {
        tx->group.rtt = member->rtt;
        tx->group.furthest = member;
    } else if (tx->group.furthest == member || tx_furthest_is_gone(tx)) {
        tx_rtt_soon(tx, now);
    }
}

void lli_tx_expire(struct lli_tx *tx, lli_ns now)
{
    const uint32_t expired = lli_members_expire(&tx->members, lli_tx_status_interval(tx), now);

    tx->group.expire_at = now + tx->config.status;
    tx->counters.receivers_lost += expired;
    if (expired > 0)
        lli_flow_reported(&tx->flow, &tx->members, tx->sent);
    if (tx_furthest_is_gone(tx))
        tx_rtt_soon(tx, now);
}
