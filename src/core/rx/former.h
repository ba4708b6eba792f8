/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a receiver followed and forgot: by identity, where each ended. One that is heard again goes on there, so that no
 * message is given twice, and none is missed unsaid; one that its transmitter ended is not followed again.
 */
#ifndef LLI_FORMER_H
#define LLI_FORMER_H

#include <llm/llm.h>

#include "core/base/types.h"

enum { LLI_FORMER_MAX = 64 };

struct lli_former_session {
    uint64_t session; /* 0: none */
    lli_seq next;     /* packets before this one were delivered, or told lost ... */
    uint64_t number;  /* ... and messages before this one */
    uint64_t held_from;    /* as the receiver's session had these when it ended */
    uint64_t acknowledged;
    bool idle;        /* no message of it came: others are rather remembered */
    enum llm_reason reason; /* LLM_REASON_CLOSED: its transmitter said that no more come */
    uint64_t noted;   /* when, as a count */
};

/* All zero: none. */
struct lli_former {
    struct lli_former_session sessions[LLI_FORMER_MAX];
    uint64_t noted;
};

/* Notes where a session ended, in the place of an earlier note of it, or else of the oldest of those that were idle, or of all. */
void lli_former_note(struct lli_former *former, const struct lli_former_session *session);

/* The note of a session, NULL: there is none. */
const struct lli_former_session *lli_former_find(const struct lli_former *former, uint64_t session);

#endif
