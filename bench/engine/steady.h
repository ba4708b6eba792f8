/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the roles with a transmitter at a constant rate. Each message carries its due time, from which
 * receivers in other processes of the machine compute its latency. Any error ends the program, with the
 * reason on stderr.
 */
#ifndef BENCH_STEADY_H
#define BENCH_STEADY_H

#include <stdbool.h>
#include <stdint.h>

#include <llm/llm.h>

#include "control.h"

/* Header of each message. */
struct steady_stamp {
    uint64_t due_at; /* 0: sent flat out */
    uint64_t sequence;
    uint32_t round;
    uint32_t phase;
};

enum { STEADY_SIZE_MIN = sizeof(struct steady_stamp) };

/* Rounds of a stream select what receivers measure; none measures this one. */
enum { STEADY_BULK = 1 << 16 };

/* Returns result, or ends the program if it is an error. */
int steady_ok(int result, const char *what);

/* Raises the limit of open files, or ends the process if it is too low. */
void steady_allow_files(uint64_t needed);

/* Default options, except that only errors are logged. */
struct llm_context_options steady_options(void);
struct llm_context *steady_open(const struct llm_context_options *options);

/* Opens a context. wait=block: it sleeps while idle. */
struct llm_context *steady_context(const struct control *control);

void steady_poll(struct llm_context *context);

/* An identity as text, since JSON numbers cannot represent all 64 bits. */
const char *steady_identity(uint64_t receiver, char text[24]);

/* Writes the counters=NAME,... of a context as an object; 0 for an unknown name. */
void steady_json_counters(const struct llm_context *context, const struct control *control);

/* Reports events about receivers and bottlenecks to the runner at once; ignores others. */
void steady_tell(const struct llm_event *event);

/* State of a receiver's stream, by message numbers. */
struct steady_track {
    uint64_t first; /* number of the first message */
    uint64_t next;  /* number expected next */
    uint64_t received;
    uint64_t lost;       /* as reported by events */
    uint64_t unsaid;     /* missing without an event */
    uint64_t duplicated; /* received twice or out of order */
    uint64_t changed;    /* differs from the sent message */
    bool begun;
    bool ended; /* the session ended, for any reason */
};

/* For each message and each event. Returns the message's stamp. */
struct steady_stamp steady_track_message(struct steady_track *track, const struct llm_message *message);
void steady_track_event(struct steady_track *track, const struct llm_event *event);

/* Writes the fields of a track. */
void steady_json_track(const struct steady_track *track);

/* Opens a receiver with these handlers. */
struct llm_receiver *steady_receiver(struct llm_context *context, const char *channel,
                                     void (*message)(void *arg, const struct llm_message *message),
                                     void (*event)(void *arg, const struct llm_event *event), void *arg);

#endif
