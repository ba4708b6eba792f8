/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the roles in which a transmitter keeps a rate and each message has in it when it was due, so that
 * receivers in other processes of one machine know its latency. Whatever fails ends the program, with the
 * reason on stderr.
 */
#ifndef BENCH_STEADY_H
#define BENCH_STEADY_H

#include <stdbool.h>
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

/* Rounds of a stream, by which receivers know what to measure, and one that none of them measures. */
enum { STEADY_BULK = 1 << 16 };

/* Returns result if it is no error. */
int steady_ok(int result, const char *what);

/* Raises the limit of open files, and ends the process if fewer are allowed than are needed. */
void steady_allow_files(uint64_t needed);

/* The defaults but for the log: errors only. */
struct llm_context_options steady_options(void);
struct llm_context *steady_open(const struct llm_context_options *options);

/* Opens a context. wait=block: it sleeps. */
struct llm_context *steady_context(const struct control *control);

void steady_poll(struct llm_context *context);

/* An identity as text: it takes all 64 bits, more than a number of JSON has. */
const char *steady_identity(uint64_t receiver, char text[24]);

/* Writes the counters=NAME,... of a context as an object; 0 for a name that it does not have. */
void steady_json_counters(const struct llm_context *context, const struct control *control);

/* Tells the runner at once of events about receivers and bottlenecks; of others nothing. */
void steady_tell(const struct llm_event *event);

/* A receiver's stream, by its numbers. */
struct steady_track {
    uint64_t first; /* number of the first message */
    uint64_t next;  /* number expected next */
    uint64_t received;
    uint64_t lost;       /* as events told */
    uint64_t unsaid;     /* missing, and no event told so */
    uint64_t duplicated; /* or out of order */
    uint64_t changed;    /* not what was sent */
    bool begun;
    bool ended; /* the session was, whatever the reason */
};

/* To be called with each message and each event. Returns the message's stamp. */
struct steady_stamp steady_track_message(struct steady_track *track, const struct llm_message *message);
void steady_track_event(struct steady_track *track, const struct llm_event *event);

/* Writes the fields of a track. */
void steady_json_track(const struct steady_track *track);

/* Opens a receiver with these handlers. */
struct llm_receiver *steady_receiver(struct llm_context *context, const char *channel,
                                     void (*message)(void *arg, const struct llm_message *message),
                                     void (*event)(void *arg, const struct llm_event *event), void *arg);

#endif
