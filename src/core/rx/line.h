/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two lines on which a session arrives: which packets have come on it, and how late it is after the other.
 * Packets of a line mostly come in order, so one that has not come when a later one has is missing on the line.
 */
#ifndef LLI_LINE_H
#define LLI_LINE_H

#include "core/base/types.h"

enum { LLI_LINE_MEMORY = 64 }; /* packets by which one may come early on a line, and the other still counts */

struct lli_line {
    bool heard;         /* a packet has come */
    lli_ns heard_at;    /* the latest packet or, before the first, since when one is expected */
    lli_seq passed;     /* the line has sent all packets before this one, as far as it has not lost them */
    uint64_t came;      /* bit i: packet passed - 1 - i has come; those before the first one count as come */
    lli_ns late;        /* smoothed lateness after the other line, 0 where it is first ... */
    lli_ns late_spread; /* ... and its mean deviation (RFC 6298) */
    bool down;          /* it has been silent for long, while the other was heard */
    bool overdue;       /* it was waited for in vain, and has not passed a packet since */
};

/* Waits for nothing yet; now: the first packet is expected from now on. */
void lli_line_start(struct lli_line *line, lli_ns now);

/*
 * Notes that the line has sent the packets before end, and returns how many it has lost for good: those that left
 * the memory without having come.
 */
uint64_t lli_line_pass(struct lli_line *line, lli_seq end);

/* Likewise, and notes that packet seq has come. */
uint64_t lli_line_packet(struct lli_line *line, lli_seq seq);

/* Notes by how much a packet came later than on the other line; 0: it came first. */
void lli_line_measured(struct lli_line *line, lli_ns late);

/* Returns the time after which a packet is not expected on the line any more, from its arrival on the other. */
lli_ns lli_line_wait(const struct lli_line *line, lli_ns most);

#endif
