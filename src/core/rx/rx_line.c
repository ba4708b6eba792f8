/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on two lines: which copies are dropped, when a packet is missing on both lines, over which line the
 * transmitter is asked, and which line is down. line.c has the state of one line. Nothing here is called for a
 * session on one line.
 */
#include "core/rx/rx_internal.h"

enum { LINES = LLI_RX_LINES_MAX };

/* A heartbeat that is older than the latest by less than this, on the other line, has been sent before it. */
#define LINE_SKEW_MAX ((lli_ns)1000000000)
/* A sample of the lateness is given up after this time. */
#define LINE_SAMPLE_MAX ((lli_ns)1000000000)

void lli_rx_line_start(struct lli_rx *rx, lli_ns now)
{
    *rx->lines = (struct lli_rx_lines){.chosen = 0};
    for (int i = 0; i < LINES; i++)
        lli_line_start(&rx->lines->line[i], now);
}

/* ------------------------------------------------------------------------------------- addresses of lines */

static bool line_has_address(const struct lli_rx *rx, int line)
{
    return line == rx->lines->chosen ? rx->heartbeat.address.size != 0
                                     : rx->lines->transmitter[line].address.size != 0;
}

/* Sends requests over this line from now on: to the transmitter's address there, with the token for it. */
static void line_choose(struct lli_rx *rx, int line)
{
    struct lli_rx_lines *lines = rx->lines;

    if (line == lines->chosen)
        return;
    lines->transmitter[lines->chosen] =
        (struct lli_rx_line_address){.address = rx->heartbeat.address, .token = rx->token};
    rx->heartbeat.address = lines->transmitter[line].address;
    rx->token = lines->transmitter[line].token;
    lines->chosen = (uint8_t)line;
}

static bool line_is_usable(const struct lli_rx *rx, int line)
{
    return line_has_address(rx, line) && !rx->lines->line[line].down;
}

void lli_rx_line_turn(struct lli_rx *rx)
{
    if (rx->config->lines > 1 && line_is_usable(rx, 1 - rx->lines->chosen))
        line_choose(rx, 1 - rx->lines->chosen);
}

void lli_rx_line_for_nak(struct lli_rx *rx, uint32_t tries)
{
    const int latest = rx->lines->latest;
    const int line = tries % 2 == 1 ? latest : 1 - latest;

    if (line_is_usable(rx, line))
        line_choose(rx, line);
}

/* --------------------------------------------------------------------------------------------- line is up */

static void line_heard(struct lli_rx *rx, int line, lli_ns now)
{
    struct lli_line *heard = &rx->lines->line[line];

    heard->heard_at = now;
    rx->lines->latest = (uint8_t)line;
    if (!heard->down)
        return;
    heard->down = false;
    rx->lines->news |= (uint8_t)(1u << line);
    lli_rx_set_news(rx, LLI_RX_LINE);
    lli_rx_unsettle(rx);
    lli_rx_need_service(rx);
}

bool lli_rx_line_item(struct lli_rx *rx, struct lli_item *item)
{
    const int line = rx->lines->news & 1 ? 0 : 1;

    rx->lines->news &= (uint8_t) ~(1u << line);
    if (rx->lines->news == 0)
        lli_rx_clear_news(rx, LLI_RX_LINE);
    (void)lli_rx_event(rx, rx->lines->line[line].down ? LLM_EVENT_LINE_DOWN : LLM_EVENT_LINE_UP, item);
    item->event.first = (uint64_t)line + 1;
    return true;
}

/* ------------------------------------------------------------------------------------------------ packets */

static void line_lost(struct lli_rx *rx, int line, uint64_t lost)
{
    *(line == 0 ? &rx->counters->line_1_lost : &rx->counters->line_2_lost) += lost;
}

/* True if a line may still bring packets before end. */
static bool line_is_awaited(const struct lli_line *line, lli_seq end)
{
    return line->heard && !line->down && !line->overdue && line->passed < end;
}

lli_ns lli_rx_lines_wait(const struct lli_rx *rx, lli_seq end)
{
    lli_ns wait = 0;

    for (int i = 0; i < LINES; i++)
        if (line_is_awaited(&rx->lines->line[i], end))
            wait = lli_max(wait, lli_line_wait(&rx->lines->line[i], rx->config->nak_retry_max));
    return wait;
}

void lli_rx_line_asked(struct lli_rx *rx, lli_seq end)
{
    for (int i = 0; i < LINES; i++)
        if (line_is_awaited(&rx->lines->line[i], end))
            rx->lines->line[i].overdue = true;
}

void lli_rx_line_passed(struct lli_rx *rx, lli_ns now)
{
    lli_seq passed = rx->gap.end;

    for (int i = 0; i < LINES; i++)
        if (line_is_awaited(&rx->lines->line[i], passed))
            passed = rx->lines->line[i].passed;
    if (passed <= rx->lines->passed)
        return;
    if (rx->gap.missing > 0)
        lli_rx_passed(rx, rx->lines->passed, passed, now);
    rx->lines->passed = passed;
}

/* Takes the time of the first copy of some packets, to compare it with that of the second. */
static void line_sample(struct lli_rx *rx, int line, lli_seq seq, bool second, lli_ns now)
{
    struct lli_rx_lines *lines = rx->lines;

    if (second) {
        if (seq != lines->sample_seq || line == lines->sample_line || lines->sample_at == 0)
            return;
        lines->measured = now - lines->sample_at;
        lli_line_measured(&lines->line[line], lines->measured);
        lli_line_measured(&lines->line[1 - line], 0);
        lines->sample_at = 0;
    } else if (lines->sample_at == 0 || now >= lines->sample_at + LINE_SAMPLE_MAX ||
               lines->line[1 - lines->sample_line].passed > lines->sample_seq + LLI_LINE_MEMORY) {
        lines->sample_seq = seq;
        lines->sample_line = (uint8_t)line;
        lines->sample_at = now;
    }
}

bool lli_rx_line_data(struct lli_rx *rx, int line, uint32_t low, lli_ns now)
{
    struct lli_rx_counters *counters = rx->counters;
    const struct lli_gap *gap = &rx->gap;
    const lli_seq seq = lli_seq_extend(gap->next, low);
    const bool second = seq < gap->next || (seq < gap->end && lli_gap_is_present(gap, seq));

    rx->lines->measured = LLI_NEVER;
    /* Beyond the window: it is dropped, and may be forged. */
    if (seq >= gap->next + lli_gap_window(gap))
        return false;
    line_lost(rx, line, lli_line_packet(&rx->lines->line[line], seq));
    line_heard(rx, line, now);
    line_sample(rx, line, seq, second, now);
    if (gap->missing > 0) {
        lli_rx_line_passed(rx, now);
        /* Of a missing packet that is not repaired, too, it may be known now that no line brings it. */
        lli_rx_need_service(rx);
    }
    if (!second) {
        *(line == 0 ? &counters->line_1_first : &counters->line_2_first) += 1;
        return false;
    }
    *(line == 0 ? &counters->line_1_second : &counters->line_2_second) += 1;
    if (rx->heard.silent)
        return false;
    lli_rx_refresh(rx, now);
    return rx->lines->news == 0;
}

/* Time at which a line is down, unless it is heard before. */
static lli_ns line_down_at(const struct lli_rx *rx, int line)
{
    return lli_max(rx->lines->line[line].heard_at, rx->heard.away_at) + lli_rx_patience(rx);
}

/* True if the other line was heard for long after this one was. */
static bool line_is_down(const struct lli_rx *rx, int line, lli_ns now)
{
    const lli_ns at = rx->lines->line[line].heard_at, other_at = rx->lines->line[1 - line].heard_at;

    return now >= line_down_at(rx, line) && rx->lines->line[1 - line].heard &&
           other_at >= at + lli_rx_patience(rx) / 2;
}

/* Declares lines down that were not heard for long. Heartbeats of the other line come often enough to find out. */
static void line_check(struct lli_rx *rx, lli_ns now)
{
    for (int i = 0; i < LINES; i++) {
        struct lli_line *line = &rx->lines->line[i];

        if (line->down || rx->config->unread || !line_is_down(rx, i, now))
            continue;
        line->down = true;
        rx->lines->news |= (uint8_t)(1u << i);
        lli_rx_set_news(rx, LLI_RX_LINE);
        lli_rx_need_service(rx);
        if (rx->lines->chosen == i && line_has_address(rx, 1 - i))
            line_choose(rx, 1 - i);
        lli_rx_line_passed(rx, now);
    }
}

/* Takes what a heartbeat says of its line. */
static void line_heartbeat(struct lli_rx *rx, int line, const struct lli_wire_heartbeat *heartbeat,
                           lli_ns now)
{
    line_heard(rx, line, now);
    /* Never beyond what was believed. A number that is too high, of a forged packet, is corrected. */
    if (rx->state == LLI_RX_LIVE && heartbeat->lead <= rx->heartbeat.lead) {
        struct lli_line *passed = &rx->lines->line[line];

        if (passed->passed > lli_max(rx->heartbeat.lead, rx->gap.end) + lli_gap_window(&rx->gap) / 2)
            passed->passed = heartbeat->lead;
        line_lost(rx, line, lli_line_pass(passed, heartbeat->lead));
        lli_rx_line_passed(rx, now);
        line_check(rx, now);
    }
}

/* True if a heartbeat is a copy of the latest one, or older than that because its line is late. */
static bool line_is_copy(const struct lli_rx *rx, int line, const struct lli_wire_heartbeat *heartbeat)
{
    return rx->heard.heartbeat_at != 0 && line != rx->lines->heartbeat_line &&
           heartbeat->session == rx->session && heartbeat->sent_at <= rx->heartbeat.sent_at &&
           rx->heartbeat.sent_at - heartbeat->sent_at < LINE_SKEW_MAX;
}

bool lli_rx_line_copy(struct lli_rx *rx, const struct lli_rx_packet *packet, lli_ns now)
{
    struct lli_wire_heartbeat heartbeat;
    const int line = packet->line;

    if (packet->header.type != LLI_WIRE_HEARTBEAT ||
        !lli_wire_get_heartbeat(packet->body, packet->body_size, &packet->header, &heartbeat) ||
        !line_is_copy(rx, line, &heartbeat))
        return false;
    if (line == rx->lines->chosen) {
        rx->heartbeat.address = heartbeat.address;
        lli_rx_addressed(rx);
    } else {
        rx->lines->transmitter[line].address = heartbeat.address;
        lli_rx_token_allow(&rx->lines->transmitter[line].token);
    }
    lli_rx_heard(rx, now);
    line_heartbeat(rx, line, &heartbeat, now);
    return true;
}

void lli_rx_line_heartbeat(struct lli_rx *rx, int line, lli_ns now)
{
    const struct lli_wire_heartbeat heartbeat = rx->heartbeat;

    rx->lines->heartbeat_line = (uint8_t)line;
    line_heartbeat(rx, line, &heartbeat, now);
}

int lli_rx_line_begin(struct lli_rx *rx, const struct lli_rx_packet *packet)
{
    const int before = rx->lines->chosen;

    if (packet->header.type == LLI_WIRE_HEARTBEAT || line_has_address(rx, packet->line))
        line_choose(rx, packet->line);
    return before;
}

void lli_rx_line_end(struct lli_rx *rx, int before)
{
    if (line_is_usable(rx, before) || !line_has_address(rx, rx->lines->chosen))
        line_choose(rx, before);
}
