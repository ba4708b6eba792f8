/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitration of the lines of a feed: an exchange sends the same MoldUDP64 packets to two groups, line A and line B. The
 * first copy of each message is taken, the second is dropped. Packets after a gap are held until the other line fills
 * it. A gap is a loss when every line has passed it, or after a time.
 *
 * It has no socket and no clock: datagrams and the time are arguments.
 */
#ifndef FEED_ARBITER_H
#define FEED_ARBITER_H

#include "mold.h"

#define ARBITER_LINES 2
#define ARBITER_HELD 256         /* packets after a gap */
#define ARBITER_PACKET_MAX 65536 /* bytes */
#define ARBITER_NEVER UINT64_MAX

struct arbiter_line {
    uint64_t next;   /* sequence after the latest packet */
    uint64_t first;  /* packets with messages that no other line had sent before */
    uint64_t second; /* packets without */
};

/* A packet that is held. */
struct arbiter_held {
    size_t size; /* 0: free */
    uint32_t line;
    struct mold_packet packet; /* in the bytes of this entry */
};

struct arbiter {
    struct mold_stream stream; /* the messages taken so far */
    uint8_t
        former[MOLD_SESSION_BYTES]; /* session before that of the stream: late packets of it are dropped */
    bool has_former;
    bool session_new; /* the next turn is the first one of the session */
    bool leaving;     /* packets of another session are held */
    uint32_t lines;
    uint32_t count;     /* packets held */
    uint64_t wait_ns;   /* a gap is waited for no longer */
    uint64_t gap_until; /* time until which the present gap is waited for; ARBITER_NEVER: there is none */
    uint64_t filled;    /* gaps that a line filled */
    uint64_t bad;       /* datagrams that cannot be decoded */
    struct arbiter_line line[ARBITER_LINES];
    struct arbiter_held held[ARBITER_HELD];
    uint8_t *bytes; /* ARBITER_PACKET_MAX for each entry of held */
};

/* A packet whose turn it is. Valid until the next arbiter_take(). */
struct arbiter_turn {
    struct mold_packet packet;
    struct mold_step step;
};

/* False without memory. */
bool arbiter_init(struct arbiter *arbiter, uint32_t lines, uint64_t wait_ns);
void arbiter_fini(struct arbiter *arbiter);

/*
 * Takes a datagram of a line. Returns true if it is its turn; the caller then handles the turn. In both cases
 * arbiter_next() follows, until it returns false.
 */
bool arbiter_take(struct arbiter *arbiter, uint32_t line, const void *datagram, size_t size, uint64_t now,
                  struct arbiter_turn *turn);

/* Returns the next packet that was held. False: there is none, or it waits for a gap to be filled. */
bool arbiter_next(struct arbiter *arbiter, uint64_t now, struct arbiter_turn *turn);

/* Returns the time at which arbiter_next() is due even if no datagram comes; ARBITER_NEVER: none. */
uint64_t arbiter_deadline(const struct arbiter *arbiter);

#endif
