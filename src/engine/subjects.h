/* SPDX-License-Identifier: Apache-2.0 */
/* The subjects that a receiver subscribed to: names of topics, and patterns of names. */
#ifndef LLI_SUBJECTS_H
#define LLI_SUBJECTS_H

#include "system/log.h"
#include "core/base/types.h"

struct lli_subject_list {
    char **texts; /* sorted */
    uint32_t count;
    uint32_t room;
};

/* All zero: nothing was ever subscribed to, and everything is wanted. */
struct lli_subjects {
    bool chosen;                      /* something was: only that is wanted */
    struct lli_subject_list names;    /* without wildcards: looked up */
    struct lli_subject_list patterns; /* tried one by one */
};

static inline uint32_t lli_subjects_count(const struct lli_subjects *subjects)
{
    return subjects->names.count + subjects->patterns.count;
}

/* Adds one; one that is there stays there. LLM_EINVAL, LLM_ELIMIT, LLM_ENOMEM, each with a line of the log. */
int lli_subjects_add(struct lli_subjects *subjects, const char *subject, const struct lli_log *log);

/* LLM_ENOTFOUND: it is not there. */
int lli_subjects_del(struct lli_subjects *subjects, const char *subject, const struct lli_log *log);

void lli_subjects_fini(struct lli_subjects *subjects);

/* Whether a topic of this name is wanted. */
bool lli_subjects_match(const struct lli_subjects *subjects, const char *name);

/* Whether a pattern takes a name: * stands for one element, > at the end for one or more. */
bool lli_subject_matches(const char *pattern, const char *name);

#endif
