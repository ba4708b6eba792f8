/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confirmation of receivers: a receiver is known once it returned the token sent to the address that it
 * announced (docs/protocol.md section 5.4). Nothing is stored about others, and each of their packets gets
 * one short answer.
 */
#include "core/tx/tx_internal.h"

void lli_tx_give_token(struct lli_tx *tx, uint64_t receiver, const struct lli_wire_address *address,
                       enum lli_wire_join_reason reason, uint64_t value)
{
    const struct lli_tx_token *latest = &tx->tokens.queue[(tx->tokens.tail - 1) % LLI_TX_TOKENS];

    if (!tx->config.confirms || receiver == 0)
        return;
    if (reason != LLI_WIRE_JOIN_NO_REASON)
        tx->tokens.crowded |= (uint8_t)(1u << reason);
    /* Several packets of one receiver, read in a row, get one token. */
    if (tx->tokens.tail != tx->tokens.head && latest->receiver == receiver && latest->reason == reason)
        return;
    if (tx->tokens.tail - tx->tokens.head == LLI_TX_TOKENS) {
        tx->counters.answers_dropped++;
        return;
    }
    tx->tokens.queue[tx->tokens.tail++ % LLI_TX_TOKENS] =
        (struct lli_tx_token){.receiver = receiver, .value = value, .reason = reason, .to = *address};
    lli_tx_look_now(tx);
}

/* True if a receiver is a member whose confirmed address is this one. */
static bool tx_is_known(const struct lli_tx *tx, uint32_t member, const struct lli_wire_address *address)
{
    return member != LLI_MEMBER_NONE && lli_wire_is_address(&tx->members.table[member].address, address);
}

static bool tx_is_confirmed(struct lli_tx *tx, uint64_t id, uint32_t member,
                            const struct lli_wire_address *address, uint64_t token)
{
    const bool confirmed = !tx->config.confirms || tx_is_known(tx, member, address) ||
                           token == lli_token(&tx->config.key, id, address);

    /* A zero token requests one: a known receiver may have seen another address, and dropped its token. */
    if (!confirmed || token == 0)
        lli_tx_give_token(tx, id, address, LLI_WIRE_JOIN_NO_REASON, 0);
    tx->counters.requests_unconfirmed += !confirmed;
    return confirmed;
}

bool lli_tx_is_confirmed(struct lli_tx *tx, uint64_t id, const struct lli_wire_address *address,
                         uint64_t token)
{
    return tx_is_confirmed(tx, id, lli_members_get(&tx->members, id), address, token);
}

struct lli_tx_requester lli_tx_requester(struct lli_tx *tx, uint64_t id,
                                         const struct lli_wire_address *address, uint64_t token, lli_ns now)
{
    const uint32_t known = tx->members.count;
    struct lli_tx_requester requester = {.member =
                                             id == 0 ? LLI_MEMBER_NONE : lli_members_get(&tx->members, id)};

    requester.confirmed = tx_is_confirmed(tx, id, requester.member, address, token);
    if (!requester.confirmed) {
        requester.member = LLI_MEMBER_NONE;
        return requester;
    }
    if (requester.member == LLI_MEMBER_NONE && id != 0)
        requester.member = lli_members_add(&tx->members, id);
    if (requester.member == LLI_MEMBER_NONE) {
        tx->counters.receivers_refused++;
        return requester;
    }
    tx->counters.receivers_joined += tx->members.count - known;
    if (tx->members.count > known)
        tx->members.table[requester.member].report_ns = lli_members_announced(&tx->members, 0);
    tx->members.table[requester.member].heard_at = now;
    tx->members.table[requester.member].address = *address;
    return requester;
}

bool lli_tx_control_token(struct lli_tx *tx, uint8_t *buffer, struct lli_packet *packet)
{
    const struct lli_tx_token *token = &tx->tokens.queue[tx->tokens.head % LLI_TX_TOKENS];
    size_t used;

    if (tx->tokens.head == tx->tokens.tail)
        return false;
    tx->tokens.head++;
    used = lli_wire_put_join(buffer, &(struct lli_wire_join){
                                         .session = tx->config.session,
                                         .receiver = token->receiver,
                                         .kind = LLI_WIRE_JOIN_TOKEN,
                                         .reason = (uint8_t)token->reason,
                                         .value = token->value,
                                         .token = lli_token(&tx->config.key, token->receiver, &token->to),
                                     });
    *packet = (struct lli_packet){.data = buffer, .size = (uint32_t)used, .to = &token->to};
    /* A receiver that just joined should become known before the session ends. */
    if (token->reason == LLI_WIRE_JOIN_NO_REASON)
        lli_tx_end_again(tx);
    tx->counters.tokens_sent++;
    lli_tx_count(tx, used);
    return true;
}

unsigned lli_tx_take_crowded(struct lli_tx *tx)
{
    const unsigned news = tx->tokens.crowded & ~(unsigned)tx->tokens.crowded_reported;

    tx->tokens.crowded_reported = tx->tokens.crowded;
    return news;
}
