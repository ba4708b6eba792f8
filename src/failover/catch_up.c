/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that begins in the middle of a stream gets the messages before from a store on its host (docs/protocol.md
 * section 12.7). Live messages wait in the tail meanwhile; those that find no room there are read from the store as well.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <llm/store.h>

#include "failover/failover.h"

/* Packets that are read in a poll. */
enum { CATCH_UP_PACKETS = 32 };

/* Time after which a store that has no more is read again, and after which one that cannot be read is. */
#define CATCH_UP_RETRY_NS ((lli_ns)5000000)
#define CATCH_UP_ERROR_NS ((lli_ns)1000000000)

/* Time without a message after which a hole is one, as stores write sessions apart, or is logged if nothing follows it. */
#define CATCH_UP_HOLE_NS ((lli_ns)1000000000)

/* The recording that has the next message: of all that begin there or before, that of the highest term. */
struct catch_up_choice {
    const struct llm_failover *failover;
    bool found;
    struct llm_recording recording;
    uint64_t until;    /* where one of a higher term begins, UINT64_MAX: nowhere */
    uint32_t left_out; /* term of one of an earlier stream of the name; 0: there is none */
};

/* Takes a recording if it is, or bounds, the one that has the next message. */
static void catch_up_consider(void *arg, const struct llm_recording *recording)
{
    struct catch_up_choice *choice = arg;
    const struct llm_failover *failover = choice->failover;

    if (recording->stream != failover->stream)
        return;
    if (!lli_election_is_of_stream(&failover->election, recording->stream_term)) {
        choice->left_out = recording->stream_term;
        return;
    }
    /* Its primary was not heard yet. */
    if (recording->stream_term > failover->election.position.followed)
        return;
    if (recording->stream_base > failover->due) {
        choice->until = lli_min(choice->until, recording->stream_base);
    } else if (!choice->found || recording->stream_term > choice->recording.stream_term) {
        choice->found = true;
        choice->recording = *recording;
    }
}

int lli_failover_catch_up_open(struct llm_failover *failover, const char *keys)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;
    const char *directory = failover->options.store_directory;
    const struct lli_log *log = &failover->context->log;
    struct catch_up_choice none = {.failover = failover};
    int count;

    failover->options.store_directory = NULL;
    if (directory == NULL)
        return LLM_OK;
    /* Tells what is wrong with the directory now, and not only when its messages are needed. */
    count = llm_replay_recordings(directory, catch_up_consider, &none, log->function, log->arg);
    if (count < 0)
        return count;
    catch_up->directory = strdup(directory);
    catch_up->keys = keys[0] != '\0' ? strdup(keys) : NULL;
    if (catch_up->directory == NULL || (keys[0] != '\0' && catch_up->keys == NULL))
        return lli_fail(log, LLM_ENOMEM, "no memory for a member of a failover group");
    failover->restored = false;
    return LLM_OK;
}

void lli_failover_catch_up_close(struct llm_failover *failover)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;

    (void)llm_replay_close(&catch_up->replay);
    free(catch_up->directory);
    free(catch_up->keys);
    *catch_up = (struct lli_failover_catch_up){.replay = NULL};
}

void lli_failover_catch_up_begin(struct llm_failover *failover, uint64_t next, lli_ns now)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;

    if (catch_up->begun)
        return;
    catch_up->begun = true;
    failover->due = failover->options.store_from;
    catch_up->needed = next;
    catch_up->progress_at = now;
}

bool lli_failover_catch_up_advanced(const struct llm_failover *failover)
{
    return failover->catch_up.begun && failover->due > failover->options.store_from;
}

static void catch_up_message(void *arg, const struct llm_message *message)
{
    struct llm_failover *failover = arg;
    const uint64_t number = failover->catch_up.base + message->number;
    struct llm_message given = *message;

    if (number < failover->due)
        return;
    if (number > failover->due)
        lli_failover_skip(failover, number);
    given.session = 0;
    lli_failover_deliver_one(failover, number, &given);
}

/* The directory was looked at, with its warnings, when the member was opened. */
static void catch_up_log_nothing(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

/* Says once that the store has recordings of an earlier stream, such as of before all members were restarted. */
static void catch_up_warn(struct llm_failover *failover, uint32_t term)
{
    if (term == 0 || failover->catch_up.warned)
        return;
    failover->catch_up.warned = true;
    lli_log(
        &failover->context->log, LLM_LEVEL_WARNING,
        "%s: store %s has recordings of an earlier stream of this name, such as that of term %u, where term "
        "%u is followed: they are left out",
        failover->object, failover->catch_up.directory, term, failover->election.position.followed);
}

/* Opens the recording that has the next message, as far as it may be delivered. LLM_EAGAIN: there is none. */
static int catch_up_open_next(struct llm_failover *failover)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;
    struct catch_up_choice choice = {.failover = failover, .until = UINT64_MAX};
    struct llm_replay_options options;
    struct llm_receiver_handlers handlers;
    const int count =
        llm_replay_recordings(catch_up->directory, catch_up_consider, &choice, catch_up_log_nothing, NULL);

    if (count < 0)
        return count;
    catch_up_warn(failover, choice.left_out);
    catch_up->hole_end = choice.until;
    if (failover->options.commit == LLM_COMMIT_BACKUP)
        choice.until = lli_min(choice.until, failover->election.committed);
    if (!choice.found || choice.until <= failover->due)
        return LLM_EAGAIN;
    llm_replay_options_init(&options);
    options.session = choice.recording.session;
    options.from = LLM_JOIN_NUMBER;
    options.value = failover->due - choice.recording.stream_base;
    options.until_number = choice.until - choice.recording.stream_base;
    options.skip_damage = true;
    options.keys = catch_up->keys;
    llm_receiver_handlers_init(&handlers);
    handlers.arg = failover;
    handlers.message = catch_up_message;
    catch_up->base = choice.recording.stream_base;
    catch_up->term = failover->election.position.followed;
    return llm_replay_open(catch_up->directory, &options, &handlers, catch_up_log_nothing, NULL,
                           &catch_up->replay);
}

/* Returns true if the messages from the next one on are in the tail, or will come. */
static bool catch_up_is_complete(const struct llm_failover *failover)
{
    const struct lli_tail *tail = &failover->tail;

    return failover->due >= (tail->next > tail->first ? tail->first : failover->catch_up.needed);
}

/* Reads some packets. Returns 0 if there was nothing. */
static int catch_up_read(struct llm_failover *failover)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;
    int result = LLM_OK;

    /* The primary that is followed decides how far the messages of a session are those of the stream. */
    if (catch_up->replay != NULL && catch_up->term != failover->election.position.followed)
        (void)llm_replay_close(&catch_up->replay);
    failover->context->in_handler = true;
    if (catch_up->replay == NULL)
        result = catch_up_open_next(failover);
    if (result == LLM_OK)
        result = llm_replay_next(catch_up->replay, CATCH_UP_PACKETS);
    failover->context->in_handler = false;
    if (result <= 0)
        (void)llm_replay_close(&catch_up->replay);
    return result == LLM_EAGAIN ? 0 : result;
}

/* Nothing came for a while: the store lacks what is before a later session, or does not record. */
static void catch_up_pass(struct llm_failover *failover)
{
    const struct lli_failover_catch_up *catch_up = &failover->catch_up;

    if (catch_up->hole_end != UINT64_MAX) {
        failover->context->in_handler = true;
        lli_failover_skip(failover, catch_up->hole_end);
        failover->context->in_handler = false;
        return;
    }
    lli_log(&failover->context->log, LLM_LEVEL_WARNING,
            "%s: store %s has no message %llu yet, and the stream is at %llu: the store has to record "
            "the channel",
            failover->object, catch_up->directory, (unsigned long long)failover->due,
            (unsigned long long)lli_max(catch_up->needed, failover->tail.next));
}

/* Reads on. Returns the time at which there is more to do. */
static lli_ns catch_up_go_on(struct llm_failover *failover, lli_ns now)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;
    const uint64_t due = failover->due;
    const int result = catch_up_read(failover);

    if (failover->due > due)
        catch_up->progress_at = now;
    if (result < 0) {
        lli_log(&failover->context->log, LLM_LEVEL_ERROR, "%s: store %s cannot be read at message %llu: %s",
                failover->object, catch_up->directory, (unsigned long long)failover->due,
                llm_error_text(result));
        return now + CATCH_UP_ERROR_NS;
    }
    if (result == 0 && now >= catch_up->progress_at + CATCH_UP_HOLE_NS) {
        catch_up->progress_at = now;
        catch_up_pass(failover);
    }
    /* A primary that lacks what was delivered cannot be followed. */
    lli_failover_advance(failover, failover->due);
    return result > 0 || failover->due > due ? now : now + CATCH_UP_RETRY_NS;
}

lli_ns lli_failover_catch_up_service(struct llm_failover *failover, lli_ns now)
{
    struct lli_failover_catch_up *catch_up = &failover->catch_up;

    if (!catch_up->begun || failover->restored || failover->election.state == LLI_ELECTION_FENCED)
        return LLI_NEVER;
    if (now < catch_up->look_at)
        return catch_up->look_at;
    if (!catch_up_is_complete(failover))
        catch_up->look_at = catch_up_go_on(failover, now);
    if (!catch_up_is_complete(failover))
        return catch_up->look_at;
    (void)llm_replay_close(&catch_up->replay);
    lli_failover_advance(failover, failover->due);
    lli_failover_restored(failover);
    return LLI_NEVER;
}
