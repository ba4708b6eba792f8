/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of past sessions: for each session that a receiver followed and forgot, the position where it ended.
 * A session that is heard again resumes there, so that no message is delivered twice and none is missed
 * unreported. A session that its transmitter ended is not followed again.
 */
#ifndef LLI_FORMER_H
#define LLI_FORMER_H

#include <llm/llm.h>

#include "core/base/types.h"

enum { LLI_FORMER_MAX = 64 };

struct lli_former_session {
    uint64_t session;           /* 0: free entry */
    lli_seq next;               /* packets before this one were delivered or reported lost ... */
    uint64_t number;            /* ... and messages before this one */
    uint64_t acknowledged_from; /* acknowledgement state of the session when it ended */
    uint64_t acknowledged;
    bool idle;              /* no message of it arrived: its entry is replaced first */
    enum llm_reason reason; /* LLM_REASON_CLOSED: its transmitter sent END */
    uint64_t noted;         /* time of the entry, as a count */
};

/* A zeroed structure is valid and empty. */
struct lli_former {
    struct lli_former_session sessions[LLI_FORMER_MAX];
    uint64_t noted;
};

/*
 * Notes where a session ended. Replaces an earlier entry of this session, else the oldest idle one, else the
 * oldest.
 */
void lli_former_note(struct lli_former *former, const struct lli_former_session *session);

/* Forgets a session. */
void lli_former_forget(struct lli_former *former, uint64_t session);

/* Returns the entry of a session, NULL if there is none. */
const struct lli_former_session *lli_former_find(const struct lli_former *former, uint64_t session);

#endif
