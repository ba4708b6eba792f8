/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two transports as one: every packet to a group is sent by both parts, and sessions drop the second copy. The
 * hybrid transport (hybrid.c) and the transport of two lines (lines.c) are made of it: they differ in how the
 * parts are opened, by which part a peer is reached, and which part is read first.
 */
#ifndef LLI_PAIR_H
#define LLI_PAIR_H

#include "common/peers.h"
#include "transport.h"

enum {
    LLI_PAIR_PARTS = 2,
    LLI_PAIR_POST_MAX = 256, /* a power of two: the queue is a ring */
    LLI_PAIR_JOINS_MAX = 256,
    LLI_PAIR_PEERS_MIN = 4096,
};

/* Handles of joins are indices; handles of peers also have this bit set. */
#define LLI_PAIR_PEER ((lli_handle)1 << 31)
/* A packet to a group goes by one part only, whose index plus one is in these bits; 0: by both. */
#define LLI_PAIR_ONLY_SHIFT 28
#define LLI_PAIR_ONLY ((lli_handle)3 << LLI_PAIR_ONLY_SHIFT)
/* lli_out.to of a queued packet whose group was left or whose memory was released. */
#define LLI_PAIR_LOST ((lli_handle)UINT32_MAX)

struct lli_pair_part {
    const struct lli_transport *transport;
    void *instance;
    struct lli_caps caps;
    uint64_t given;  /* packets of the queue offered to the part, or passed over */
    uint64_t posted; /* packets the part accepted, in total */
    bool stuck;
};

struct lli_pair_join {
    uint32_t users;
    lli_handle handle[LLI_PAIR_PARTS];
};

struct lli_pair_out {
    struct lli_out out;
    uint64_t mark[LLI_PAIR_PARTS]; /* value of the part's reap() at which it is done with this packet */
};

/* Part that reaches a peer, and its handle there. */
struct lli_pair_peer {
    bool known;
    uint8_t part;
    lli_handle handle;
};

/* First member of an instance. */
struct lli_pair {
    struct lli_pair_part part[LLI_PAIR_PARTS];
    const char *name;    /* for errors */
    uint64_t second_bit; /* lli_in.buffer bit of packets of the second part */
    uint64_t taken;      /* packets posted since open */
    uint64_t done;       /* of these, sent or lost */
    struct lli_pair_out out[LLI_PAIR_POST_MAX];
    struct lli_pair_join senders[LLI_PAIR_JOINS_MAX];
    struct lli_pair_join receivers[LLI_PAIR_JOINS_MAX];
    uint32_t receivers_used; /* upper bound of the places used so far */
    struct lli_peers peers;
    struct lli_pair_peer *peer; /* by place */
    const struct lli_log *log;
    int epoll;
};

/* ---------------------------------------------------------------------------------------------- control */

/* Prepares an instance of zeros: its table of peers and its descriptor. lli_pair_close() after a failure. */
int lli_pair_init(struct lli_pair *pair, const struct lli_transport_config *config, const char *name,
                  uint64_t second_bit);

/* Opens a part, whose transport is set. */
int lli_pair_open_part(struct lli_pair *pair, int which, const struct lli_transport_config *config);

/* Also closes a partly opened instance. */
void lli_pair_close(void *instance);
void lli_pair_abandon(void *instance);
int lli_pair_region(void *instance, void *base, size_t size);
int lli_pair_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region);
void lli_pair_region_end(void *instance, void *base, size_t size);

/* Joins a group of each part, the second part first. */
int lli_pair_join(struct lli_pair *pair, const struct lli_group *const groups[LLI_PAIR_PARTS],
                  enum lli_join_mode mode, lli_handle *handle);
void lli_pair_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
void lli_pair_forget(void *instance, const struct lli_address *address);

/* Returns the part that received a packet. */
static inline int lli_pair_part_of(const struct lli_pair *pair, const struct lli_in *packet)
{
    return packet->buffer & pair->second_bit ? 1 : 0;
}

/* Asks the part that received a packet; a part without the call accepts all. */
bool lli_pair_came_from(const struct lli_pair *pair, const struct lli_in *packet,
                        const struct lli_address *address);

const struct lli_transport *lli_pair_inner(const void *instance, int index, const void **inner_instance);

/* ------------------------------------------------------------------------------------------------- data */

int lli_pair_post(void *instance, const struct lli_out *packets, int count);

/* Offers all queued packets to a part, flushing it whenever it is full. */
void lli_pair_give(struct lli_pair *pair, int which);

/* Passes over the next packet that a part was not offered. Returns true if the part would have sent it. */
bool lli_pair_pass_over(struct lli_pair *pair, int which);

int lli_pair_flush(void *instance);
uint64_t lli_pair_reap(void *instance);

/* Receives packets of a part. */
int lli_pair_receive(struct lli_pair *pair, int which, struct lli_in *packets, int max);
void lli_pair_release(void *instance, const struct lli_in *packets, int count);
int lli_pair_arm(void *instance);

#endif
