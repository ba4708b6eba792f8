/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the benchmarks in which a transmitter keeps a rate and each message has in it when it was due, so that receivers in
 * other processes of one machine know its latency. Whatever fails ends the program, with the reason on stderr.
 */
#ifndef BENCH_STEADY_H
#define BENCH_STEADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/llm.h>

#include "control.h"

/* The head of each message. */
struct steady_stamp {
    uint64_t due_at; /* 0: it was sent flat out */
    uint64_t sequence;
    uint32_t round;
    uint32_t phase;
};

enum { STEADY_SIZE_MIN = sizeof(struct steady_stamp) };

/* Returns result if it is no error. */
int steady_ok(int result, const char *what);

/* Memory, zeroed. */
void *steady_memory(size_t count, size_t size);

/* Moves to the CPU, if one was asked for, and opens a context there. */
struct llm_context *steady_context(const struct control *control, enum llm_wait_mode wait);

/* A counter of all that is open in a context; 0 if nothing has it. */
uint64_t steady_stat(const struct llm_context *context, const char *name);

/* Writes counters as an object. */
void steady_json_stats(const struct llm_context *context, const char *const *names, size_t count);

/* Says a word to the runner: the phase that begins, which it may pass on to other processes. */
void steady_say(const char *phase);

/* The next word that the runner passed on, until the next call; NULL: none was. Sets *over once there will be none any more. */
const char *steady_hear(bool *over);

/* ------------------------------------------------------------------------------------------------------------- sending */

struct steady_sender {
    struct llm_context *context;
    struct llm_topic **topics; /* that messages take turns on */
    size_t topic_count;
    uint64_t size;     /* of a message, at least STEADY_SIZE_MIN */
    uint64_t rate;     /* messages a second; 0: flat out */
    uint64_t sequence; /* of the next message */
    uint64_t *due_at;  /* by sequence modulo due_count, when each was due, or flat out sent; NULL: nobody wants to know */
    uint64_t due_count;
    uint8_t *data;     /* the sender's own, from its first message on */
};

/* Opens a transmitter with the sender's topics, all but the first of which have numbered names, and waits for so many receivers. */
struct llm_transmitter *steady_transmitter(struct steady_sender *sender, const char *channel, const struct llm_options *options,
                                           const struct llm_transmitter_handlers *handlers, uint64_t receivers);

/* Waits for them. */
void steady_await(struct llm_context *context, const struct llm_transmitter *transmitter, uint64_t receivers);

/* Closes it, which waits for repairs, the context, and gives back the sender's memory. */
void steady_close(struct steady_sender *sender, struct llm_transmitter *transmitter);

/* Sends for so long. Returns how many messages a second that came to. */
double steady_send(struct steady_sender *sender, uint64_t duration_ns, uint32_t round, uint32_t phase);

/* ----------------------------------------------------------------------------------------------------------- receiving */

/* A receiver's stream, by its numbers. */
struct steady_track {
    uint64_t first;      /* number of the first message */
    uint64_t next;       /* that should come next */
    uint64_t received;
    uint64_t lost;       /* as events told */
    uint64_t unsaid;     /* missing, and no event told so */
    uint64_t duplicated; /* or out of order */
    uint64_t changed;    /* not what was sent */
    bool begun;
    bool ended;          /* the session was, whatever the reason */
};

/* To be called with each message and each event. Returns the message's stamp. */
struct steady_stamp steady_track_message(struct steady_track *track, const struct llm_message *message);
void steady_track_event(struct steady_track *track, const struct llm_event *event);

/* True if it began, and had every message once, as it was sent. */
bool steady_track_exact(const struct steady_track *track);

/* A receiver in a context of its own that has its place among others. */
struct steady_place {
    struct steady_track track; /* the first member, for steady_place_event() */
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct histogram hops;
};

/* Opens a receiver with these handlers; options: NULL, the defaults. */
struct llm_receiver *steady_receiver(struct llm_context *context, const char *channel, const struct llm_options *options,
                                     void (*message)(void *arg, const struct llm_message *message),
                                     void (*event)(void *arg, const struct llm_event *event), void *arg);

/* For the event handler of a place, or of any that begins with a track. */
void steady_place_event(void *arg, const struct llm_event *event);

/* Polls all of them in turn until the session has ended for each, and writes their tracks into the answer, as "receivers". */
void steady_poll_places(struct steady_place *places, uint64_t count);
void steady_json_places(const struct steady_place *places, uint64_t count);

/* Writes the fields of a track. */
void steady_json_track(const struct steady_track *track);

#endif
