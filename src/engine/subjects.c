/* SPDX-License-Identifier: Apache-2.0 */
/* Subjects, and the public API of subscriptions. */
#include "engine/subjects.h"

#include <stdlib.h>
#include <string.h>

#include "engine/objects.h"

/* Returns true if an element of a subject is this wildcard and nothing else. */
static bool subject_is_wildcard(const char *element, char wildcard)
{
    return element[0] == wildcard && (element[1] == '.' || element[1] == '\0');
}

bool lli_subject_matches(const char *pattern, const char *name)
{
    for (;; pattern++, name++) {
        if (pattern[0] == '>' && pattern[1] == '\0')
            return true;
        if (subject_is_wildcard(pattern, '*'))
            for (pattern++; *name != '.' && *name != '\0';)
                name++;
        else
            for (; *pattern == *name && *pattern != '.' && *pattern != '\0'; name++)
                pattern++;
        if (*pattern != *name)
            return false;
        if (*pattern == '\0')
            return true;
    }
}

/* Checks a subject. *wild: it has wildcards. */
static int subject_check(const char *subject, bool *wild, const struct lli_log *log)
{
    const size_t size = strlen(subject);

    if (size < 1 || size > LLI_WIRE_NAME_MAX)
        return lli_fail(log, LLM_EINVAL, "subject \"%.32s%s\": it has 1 to %d bytes, as names of topics do",
                        subject, size > 32 ? "..." : "", LLI_WIRE_NAME_MAX);
    *wild = false;
    for (const char *at = subject; at != NULL; at = strchr(at, '.') == NULL ? NULL : strchr(at, '.') + 1) {
        if (subject_is_wildcard(at, '>') && at[1] == '.')
            return lli_fail(log, LLM_EINVAL,
                            "subject \"%s\", column %zu: > stands for all that follows, so nothing may "
                            "follow it",
                            subject, (size_t)(at - subject) + 1);
        *wild |= subject_is_wildcard(at, '>') || subject_is_wildcard(at, '*');
    }
    return LLM_OK;
}

/* Returns the index of a text in a list, or where it belongs. *found: the list has it. */
static uint32_t subject_find(const struct lli_subject_list *list, const char *text, bool *found)
{
    uint32_t low = 0, high = list->count;

    *found = false;
    while (low < high && !*found) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(text, list->texts[middle]);

        *found = order == 0;
        if (order < 0)
            high = middle;
        else
            low = middle + !*found;
    }
    return low;
}

static int subject_insert(struct lli_subject_list *list, uint32_t at, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    if (list->count == list->room) {
        const uint32_t room = list->room == 0 ? 16 : list->room * 2;
        char **texts = realloc(list->texts, room * sizeof *texts);

        if (texts != NULL) {
            list->texts = texts;
            list->room = room;
        }
    }
    if (copy == NULL || list->count == list->room) {
        free(copy);
        return LLM_ENOMEM;
    }
    memcpy(copy, text, size);
    memmove(list->texts + at + 1, list->texts + at, (list->count - at) * sizeof *list->texts);
    list->texts[at] = copy;
    list->count++;
    return LLM_OK;
}

int lli_subjects_add(struct lli_subjects *subjects, const char *subject, const struct lli_log *log)
{
    struct lli_subject_list *list;
    bool wild = false, found;
    uint32_t at;
    int error = subject_check(subject, &wild, log);

    if (error != LLM_OK)
        return error;
    list = wild ? &subjects->patterns : &subjects->names;
    at = subject_find(list, subject, &found);
    if (found)
        return LLM_OK;
    if (lli_subjects_count(subjects) == LLM_SUBJECTS_MAX)
        return lli_fail(log, LLM_ELIMIT,
                        "subject \"%s\": a receiver has at most %d; a pattern stands for many", subject,
                        LLM_SUBJECTS_MAX);
    if (subject_insert(list, at, subject) != LLM_OK)
        return lli_fail(log, LLM_ENOMEM, "subject \"%s\": no memory for it", subject);
    subjects->chosen = true;
    return LLM_OK;
}

int lli_subjects_del(struct lli_subjects *subjects, const char *subject, const struct lli_log *log)
{
    struct lli_subject_list *lists[] = {&subjects->names, &subjects->patterns};

    for (int i = 0; i < 2; i++) {
        struct lli_subject_list *list = lists[i];
        bool found;
        const uint32_t at = subject_find(list, subject, &found);

        if (!found)
            continue;
        free(list->texts[at]);
        list->count--;
        memmove(list->texts + at, list->texts + at + 1, (list->count - at) * sizeof *list->texts);
        return LLM_OK;
    }
    return lli_fail(log, LLM_ENOTFOUND, "subject \"%.32s\": is not subscribed to", subject);
}

void lli_subjects_fini(struct lli_subjects *subjects)
{
    struct lli_subject_list *lists[] = {&subjects->names, &subjects->patterns};

    for (int i = 0; i < 2; i++) {
        while (lists[i]->count > 0)
            free(lists[i]->texts[--lists[i]->count]);
        free(lists[i]->texts);
    }
    *subjects = (struct lli_subjects){.chosen = false};
}

bool lli_subjects_match(const struct lli_subjects *subjects, const char *name)
{
    bool found;

    if (!subjects->chosen)
        return true;
    (void)subject_find(&subjects->names, name, &found);
    for (uint32_t i = 0; i < subjects->patterns.count && !found; i++)
        found = lli_subject_matches(subjects->patterns.texts[i], name);
    return found;
}

/* ---------------------------------------------------------------------------------------------- public */

/* Has the next poll decide again about topics that are announced already. */
static void subjects_changed(struct llm_receiver *receiver)
{
    for (uint32_t i = 0; i < receiver->sessions_used; i++)
        lli_rx_resolve(&receiver->sessions[i]);
    lli_endpoint_due(receiver->endpoint, 0);
}

static int subjects_change(struct llm_receiver *receiver, const char *subject,
                           int (*change)(struct lli_subjects *, const char *, const struct lli_log *))
{
    int error;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (subject == NULL)
        return lli_refuse(receiver->context, LLM_EINVAL,
                          "subject is NULL: give the name of a topic, or a pattern of names");
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    error = change(&receiver->subjects, subject, &receiver->context->log);
    if (error == LLM_OK)
        subjects_changed(receiver);
    lli_context_leave(receiver->context);
    return error;
}

int llm_receiver_subscribe(struct llm_receiver *receiver, const char *subject)
{
    return subjects_change(receiver, subject, lli_subjects_add);
}

int llm_receiver_unsubscribe(struct llm_receiver *receiver, const char *subject)
{
    return subjects_change(receiver, subject, lli_subjects_del);
}
