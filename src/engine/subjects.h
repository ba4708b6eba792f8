/* SPDX-License-Identifier: Apache-2.0 */
/* Subjects that a receiver subscribed to: names of topics, and patterns of names. */
#ifndef LLI_SUBJECTS_H
#define LLI_SUBJECTS_H

#include "system/log.h"
#include "core/base/types.h"

struct lli_subject_list {
    char **texts; /* sorted */
    uint32_t count;
    uint32_t room;
};

/* All zero: there never was a subscription, and every topic is wanted. */
struct lli_subjects {
    bool chosen;                      /* there was a subscription: only subjects in the lists are wanted */
    struct lli_subject_list names;    /* without wildcards: looked up */
    struct lli_subject_list patterns; /* tried one by one */
};

static inline uint32_t lli_subjects_count(const struct lli_subjects *subjects)
{
    return subjects->names.count + subjects->patterns.count;
}

/*
 * Adds a subject; a second addition has no effect. LLM_EINVAL, LLM_ELIMIT, LLM_ENOMEM, each with a log line.
 */
int lli_subjects_add(struct lli_subjects *subjects, const char *subject, const struct lli_log *log);

/* Removes a subject. LLM_ENOTFOUND: it is not in the lists. */
int lli_subjects_del(struct lli_subjects *subjects, const char *subject, const struct lli_log *log);

void lli_subjects_fini(struct lli_subjects *subjects);

/* Returns true if a topic of this name is wanted. */
bool lli_subjects_match(const struct lli_subjects *subjects, const char *name);

/* Returns true if a pattern matches a name: * is any one element, > at the end one or more. */
bool lli_subject_matches(const char *pattern, const char *name);

#endif
