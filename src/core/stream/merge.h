/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of several transmitters that send the same messages, merged into one sequence (docs/protocol.md section
 * 4.5.1): the first copy of each number is delivered, and a number is lost when no session has it. Numbers are those
 * of the stream. Every session that is not at a loss is at or before the next number.
 */
#ifndef LLI_MERGE_H
#define LLI_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/types.h"

enum {
    LLI_MERGE_MEMBERS = 16,
    LLI_MERGE_SUMS = 4096, /* messages whose hashes are remembered; a power of two */
};

/* Hash of a message that was delivered. */
struct lli_merge_sum {
    uint64_t after; /* its number + 1; 0: free entry */
    uint64_t hash;
};

struct lli_merge_member {
    uint64_t session; /* 0: free entry */
    uint64_t resume;  /* at_loss: number with which the session continues */
    uint64_t asked;   /* at_loss: next number at the latest lli_merge_ask() */
    lli_ns since;     /* at_loss: time of the first one at which it was that */
    bool at_loss;     /* it lacks the numbers from the next one on and before `resume` */
    bool overdue;     /* another session waited for it in vain since it last delivered */
};

/* A zeroed structure with memory for `sums` is valid and empty. */
struct lli_merge {
    struct lli_merge_sum *sums; /* LLI_MERGE_SUMS, by number */
    uint64_t next;              /* earlier numbers were delivered or reported lost */
    bool known;                 /* `next` is valid */
    uint32_t count;
    struct lli_merge_member members[LLI_MERGE_MEMBERS];
};

enum lli_merge_verdict {
    LLI_MERGE_WAIT,    /* another session may have the numbers */
    LLI_MERGE_COVERED, /* other sessions delivered them: nothing is lost */
    LLI_MERGE_LOST,    /* no session has them */
};

/* Adds a session, or finds it. NULL: there are LLI_MERGE_MEMBERS others. */
struct lli_merge_member *lli_merge_add(struct lli_merge *merge, uint64_t session);

/* Removes a session, if it is there. */
void lli_merge_del(struct lli_merge *merge, uint64_t session);

/* Notes that a session has the numbers before end. Returns the first of them that is not a copy, if one is not. */
uint64_t lli_merge_take(struct lli_merge *merge, struct lli_merge_member *member, uint64_t end);

/* Notes the hash of a message that is delivered. */
void lli_merge_note(struct lli_merge *merge, uint64_t number, uint64_t hash);

/* Returns what was noted of the message that another session delivered with this number; NULL: nothing any more. */
const struct lli_merge_sum *lli_merge_noted(const struct lli_merge *merge, uint64_t number);

/* True if all numbers before this one were delivered or reported lost. */
static inline bool lli_merge_covers(const struct lli_merge *merge, uint64_t number)
{
    return number <= merge->next;
}

/* True if a session other than this one may have the next numbers. */
bool lli_merge_has_others(const struct lli_merge *merge, const struct lli_merge_member *member);

/*
 * Decides about a session that lacks the next numbers, has given up to repair them, and continues with number
 * resume. Others are waited for no longer than wait_ns after a message was delivered.
 */
enum lli_merge_verdict lli_merge_ask(struct lli_merge *merge, struct lli_merge_member *member,
                                     uint64_t resume, lli_ns now, lli_ns wait_ns);

/* Notes that numbers before end are lost. Returns the first that is, end if none is. */
uint64_t lli_merge_lose(struct lli_merge *merge, struct lli_merge_member *member, uint64_t end);

#endif
