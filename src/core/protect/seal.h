/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals, docs/protocol.md section 14.8: a transmitter's signatures over the digests of its data packets, in ranges of
 * consecutive packets. The format, the digests that a transmitter has signed or will sign, and those of packets that a
 * receiver took and has not verified yet. Digests and signatures themselves are in security/.
 */
#ifndef LLI_SEAL_H
#define LLI_SEAL_H

#include "core/base/types.h"
#include "core/wire/wire.h"

enum {
    LLI_SEAL_TYPE = 15,                   /* of the base header */
    LLI_SEAL_RANGES_MAX = 12,             /* ranges in a seal */
    LLI_SEAL_PACKETS_MAX = 512,           /* packets in a range */
    LLI_SEAL_DUE = 4096,                  /* packets that are sealed at the latest ... */
    LLI_SEAL_NS = 1000000,                /* ... or this time after the first of them, in ns */
    LLI_SEAL_DIGEST = 32,                 /* bytes of a digest */
    LLI_SEAL_SIGNATURE = 64,              /* bytes of a signature */
    LLI_SEAL_HEAD = LLI_WIRE_HEADER + 10, /* bytes before the ranges */
    LLI_SEAL_RANGE = 10,                  /* bytes of a range without its digest */
    LLI_SEAL_TEXT_MAX =
        LLI_SEAL_HEAD + LLI_SEAL_RANGES_MAX * (LLI_SEAL_RANGE + LLI_SEAL_DIGEST), /* signed bytes */
    LLI_SEAL_MAX = LLI_SEAL_TEXT_MAX + LLI_SEAL_SIGNATURE, /* bytes of the longest packet */
};

/* Consecutive packets. */
struct lli_seal_range {
    lli_seq first;
    uint32_t count;
    uint8_t digest[LLI_SEAL_DIGEST]; /* of the digests of the packets, in order; unused in a request */
};

/* A seal, or a request for one. */
struct lli_seal {
    uint64_t session;
    bool asks;
    uint32_t count;
    struct lli_seal_range ranges[LLI_SEAL_RANGES_MAX];
};

/*
 * Writes a packet of type SEAL, of at most LLI_SEAL_MAX bytes. Returns its size; a seal that does not ask ends with
 * LLI_SEAL_SIGNATURE bytes that are still to be written.
 */
uint32_t lli_seal_put(uint8_t *packet, const struct lli_seal *seal);

/* Reads a packet of type SEAL. False: it contradicts itself. */
bool lli_seal_get(const uint8_t *packet, size_t size, struct lli_seal *seal);

/*
 * Writes the bytes that are signed, and returns how many they are. The signature follows as many bytes of the packet.
 */
uint32_t lli_seal_text(const uint8_t *packet, const struct lli_seal *seal, uint8_t text[LLI_SEAL_TEXT_MAX]);

/* ---------------------------------------------------------------------------------------- transmitters */

/* Digests of a transmitter's latest packets. */
struct lli_seal_log {
    uint8_t (*digests)[LLI_SEAL_DIGEST];
    uint32_t capacity; /* a power of two */
    lli_seq first;     /* of the packets that have digests ... */
    lli_seq next;      /* ... before this one */
    lli_seq sealed;    /* packets before this one are sealed */
    lli_ns since;      /* the first packet that is not sealed was noted */
};

/* digests: memory for as many as capacity, which is a power of two. */
void lli_seal_log_init(struct lli_seal_log *log, uint8_t (*digests)[LLI_SEAL_DIGEST], uint32_t capacity);

/* Notes the next packet. */
void lli_seal_log_note(struct lli_seal_log *log, lli_seq seq, const uint8_t digest[LLI_SEAL_DIGEST],
                       lli_ns now);

/* Returns when the next seal is due; LLI_NEVER: all packets are sealed. */
lli_ns lli_seal_log_due(const struct lli_seal_log *log);

/* Fills the ranges of the next seal, without their digests; they count as sealed. */
void lli_seal_log_take(struct lli_seal_log *log, struct lli_seal *seal, lli_ns now);

/* Removes packets from the ranges of a request that have no digest here, or are not sealed yet. */
void lli_seal_log_answer(const struct lli_seal_log *log, struct lli_seal *seal);

/* Returns the digest of a packet that is in a range of one of the calls above. */
const uint8_t *lli_seal_log_digest(const struct lli_seal_log *log, lli_seq seq);

/* ------------------------------------------------------------------------------------------- receivers */

enum {
    LLI_SEAL_WINDOW = 16384, /* packets of a session whose digests are remembered */
    LLI_SEAL_ASK = 5000000,  /* ns after which a receiver asks for a seal that did not come */
    LLI_SEAL_PATIENCE =
        1000000000, /* ns of a session's life after which a packet without a seal is reported */
};

/* Ns after which such a packet is reported if nothing else of the session came. */
#define LLI_SEAL_SILENCE ((lli_ns)10000000000)

enum lli_seal_state {
    LLI_SEAL_NONE,     /* no packet is remembered: none came, or one of its range was forged */
    LLI_SEAL_WAITING,  /* no seal came yet */
    LLI_SEAL_VERIFIED, /* the transmitter sealed it */
    LLI_SEAL_REFUSED,  /* it differs from what the transmitter sealed, or no seal came */
};

/* Packet that a receiver took. */
struct lli_seal_entry {
    lli_seq seq;
    lli_ns at; /* when it came */
    enum lli_seal_state state;
    uint8_t digest[LLI_SEAL_DIGEST];
};

/* Latest packets of a session. */
struct lli_seal_window {
    struct lli_seal_entry *entries; /* LLI_SEAL_WINDOW */
    lli_seq low;                    /* no packet before this one waits ... */
    lli_seq high;                   /* ... and none from this one on */
    uint32_t waiting;               /* packets that wait for a seal */
    uint32_t displaced;             /* packets that newer ones displaced before their seal came */
    lli_ns heard;                   /* latest packet of the session */
};

enum lli_seal_taken {
    LLI_SEAL_NEW,
    LLI_SEAL_SAME,    /* it came before */
    LLI_SEAL_DIFFERS, /* another packet of this number came before: one of the two is forged */
};

/* Forgets all packets; entries stays. */
void lli_seal_window_reset(struct lli_seal_window *window);

/* Notes a packet that a receiver takes. */
enum lli_seal_taken lli_seal_window_note(struct lli_seal_window *window, lli_seq seq,
                                         const uint8_t digest[LLI_SEAL_DIGEST], lli_ns now);

/* Forgets a packet that was refused, so that another one of its number can be noted. */
void lli_seal_window_forgive(struct lli_seal_window *window, lli_seq seq);

/* Returns what is known of a packet. */
enum lli_seal_state lli_seal_window_state(const struct lli_seal_window *window, lli_seq seq);

/* Returns true if all packets of a range came, and a seal can decide about one of them at least. */
bool lli_seal_window_needs(const struct lli_seal_window *window, const struct lli_seal_range *range);

/* Returns the digest of a packet of such a range. */
const uint8_t *lli_seal_window_digest(const struct lli_seal_window *window, lli_seq seq);

/* Gives packets of a range that wait another state; returns how many. */
uint32_t lli_seal_window_set(struct lli_seal_window *window, const struct lli_seal_range *range,
                             enum lli_seal_state state);

/* Fills a request for the seals of packets that wait for too long. False: there are none. */
bool lli_seal_window_ask(struct lli_seal_window *window, lli_ns now, struct lli_seal *seal);

/* Refuses packets whose seals did not come, and returns how many, with those that were displaced. */
uint32_t lli_seal_window_give_up(struct lli_seal_window *window, lli_ns now);

#endif
