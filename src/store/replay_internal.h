/* SPDX-License-Identifier: Apache-2.0 */
/* State of a replay. replay.c goes from session to session, replay_deliver.c delivers what is in packets. */
#ifndef LLI_REPLAY_INTERNAL_H
#define LLI_REPLAY_INTERNAL_H

#include <llm/llm.h>

#include "core/pack/unpack.h"
#include "core/rx/topics.h"
#include "store/cursor.h"
#include "system/memory.h"

enum {
    LLI_REPLAY_TOPICS = 1 << 20, /* as many as a transmitter can have */
    LLI_REPLAY_BATCH = 256,      /* messages that are delivered at once, at most */
    /* Properties that fit into a frame of attributes. */
    LLI_REPLAY_PROPERTIES = LLI_FRAME_ATTRIBUTES_MAX / 7,
};

/* A frame of attributes, without its code and size. */
struct lli_replay_frame {
    const uint8_t *bytes;
    uint32_t size; /* 0: none */
};

struct llm_replay {
    struct lli_log log;
    struct llm_replay_options options;
    struct llm_receiver_handlers handlers;
    struct lli_memory memory;
    struct lli_catalogue *catalogue;
    uint64_t *sessions; /* those to be replayed, in order */
    uint32_t sessions_count;
    uint32_t sessions_done;
    int delivered; /* in the running call */
    bool inside;   /* a handler runs */
    bool damaged;  /* the damage at which the cursor stands was reported */

    /* The session that is being replayed. */
    struct lli_cursor *cursor; /* NULL: none is */
    uint64_t session;
    struct lli_unpack unpack;
    struct lli_topics topics;
    uint32_t topics_reported; /* all before this id, as far as they are known; others are reported at once */
    bool unpacking;           /* a packet, or a gap, was read */
    bool begun;               /* LLM_EVENT_SESSION_NEW was delivered */
    bool nameless;            /* that a topic's name cannot be opened was logged */
    bool over;                /* nothing more of the session is delivered */
    uint64_t oldest;          /* number of the first message that can be there */
    uint64_t from;            /* messages before this one are left out; UINT64_MAX: not known yet */
    lli_ns from_wall;         /* ... until a block that ended at this time or later */
    lli_ns wall;              /* of the current block */
    struct lli_unopened passed;  /* a packet that no key opens, which may have nothing that is wanted ... */
    struct lli_unopened refused; /* ... or has: nothing more of the session can be read */

    uint8_t assembled_frame[LLI_FRAME_ATTRIBUTES_MAX]; /* of a message that spans packets */
    struct lli_replay_frame assembled;
    uint32_t count; /* messages that are being delivered */
    struct llm_message messages[LLI_REPLAY_BATCH];
    struct lli_replay_frame frames[LLI_REPLAY_BATCH];
    struct llm_property properties[LLI_REPLAY_PROPERTIES]; /* of llm_replay_attributes() */
};

/* Forgets the session that was replayed before. */
void lli_replay_begin(struct llm_replay *replay, uint64_t session);

/* Each delivers what comes of a record; `over` is set at the end of what is wanted. */
void lli_replay_record(struct llm_replay *replay, const struct lli_record *record,
                       const struct lli_block *block);

/* Ends the session, if that was not done: messages up to the last complete one were delivered. */
void lli_replay_end(struct llm_replay *replay, enum llm_reason reason);

#endif
