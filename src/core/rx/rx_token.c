/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits packets to an address that has not answered yet: a few short packets, of at most three times the bytes of
 * the heartbeats that announce it, as it may belong to a third party (docs/protocol.md section 5.4). The
 * answer is a token, which later packets carry.
 */
#include "core/rx/rx_internal.h"

/* Packets sent at once; later ones follow at doubling intervals. */
enum { RX_UNANSWERED = 4 };
#define RX_UNANSWERED_DISTANCE ((lli_ns)5000000)
#define RX_UNANSWERED_DISTANCE_MAX ((lli_ns)1000000000)

/* Bytes for each heartbeat: three times the shortest one. Enough for minutes of reports is saved. */
enum { RX_ALLOWANCE = 3 * (LLI_WIRE_HEADER + 70), RX_ALLOWANCE_MAX = 1 << 16 };

static lli_ns rx_unanswered_distance(uint32_t count)
{
    return lli_min(RX_UNANSWERED_DISTANCE << lli_min(count, 16), RX_UNANSWERED_DISTANCE_MAX);
}

void lli_rx_token_start(struct lli_rx *rx)
{
    rx->token.value = 0;
    rx->token.unanswered = 0;
    rx->token.allowance = 0;
    rx->token.speak_at = 0;
}

lli_ns lli_rx_token_retry(const struct lli_rx *rx)
{
    if (lli_rx_is_unheard(rx) || (rx->config->confirms && !lli_rx_is_answered(rx)))
        return rx_unanswered_distance(rx->token.unanswered);
    return LLI_NEVER;
}

bool lli_rx_may_speak(struct lli_rx *rx, uint32_t size, lli_ns now)
{
    struct lli_rx_token *token = &rx->token;

    if (lli_rx_is_unheard(rx)) {
        token->unanswered++;
        return true;
    }
    if (!rx->config->confirms || lli_rx_is_answered(rx))
        return true;
    if (++token->unanswered >= RX_UNANSWERED)
        token->speak_at = now + rx_unanswered_distance(token->unanswered - RX_UNANSWERED);
    /*
     * A packet that is withheld counts as sent. A session that has answered is not stopped by that: its forged
     * heartbeats with other addresses cost these less than three times their bytes by the distances alone.
     */
    if (token->value != 0)
        return true;
    if (size > token->allowance) {
        token->speak_at = lli_max(token->speak_at, now + RX_UNANSWERED_DISTANCE);
        rx->counters->packets_withheld++;
        return false;
    }
    token->allowance -= size;
    return true;
}

void lli_rx_token_allow(struct lli_rx_token *token)
{
    token->allowance = (uint32_t)lli_min(token->allowance + RX_ALLOWANCE, RX_ALLOWANCE_MAX);
}

void lli_rx_addressed(struct lli_rx *rx)
{
    struct lli_rx_token *token = &rx->token;

    if (token->value != 0 && token->speak_at == 0)
        return;
    if (lli_rx_is_answered(rx))
        token->speak_at = 0;
    else
        lli_rx_token_allow(token);
}

void lli_rx_take_token(struct lli_rx *rx, uint64_t token, lli_ns now)
{
    const bool known = token == rx->token.value && lli_rx_is_answered(rx);

    if (token == 0 || known)
        return;
    rx->token.value = token;
    rx->token.from = rx->heartbeat.address;
    rx->token.unanswered = 0;
    rx->token.speak_at = 0;
    if (rx->state == LLI_RX_REQUESTING)
        return;
    /* Packets sent without the token had no effect. */
    lli_rx_report_early(rx, now);
    if (rx->names.query_at != LLI_NEVER)
        lli_rx_query_at(rx, now);
    if (lli_rx_is_fetching(rx) || rx->pending.slow_path & LLI_RX_LATEST)
        lli_rx_request_at(rx, now);
}
