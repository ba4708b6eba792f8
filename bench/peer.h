/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a benchmark: a context with a transmitter to the other end and a receiver from it, and the requests by which one
 * end directs the other. Requests and answers travel in the stream of the messages measured, on a topic of their own, so an
 * answer to the request that ends a measurement comes after everything that was measured. Both ends are taken to have the same
 * byte order.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <llm/llm.h>

#include "raw.h"

enum peer_kind {
    PEER_HELLO = 1, /* are you there? The answer's text describes the machine */
    PEER_START,     /* a measurement of libllm follows; values as its benchmark says */
    PEER_MARK,      /* warming up is over; without an answer */
    PEER_END,       /* it is over; values[0]: messages sent. The answer has the counts */
    PEER_RAW,       /* a raw measurement follows, at once after the answer */
    PEER_RAW_END,   /* in a raw datagram: it is over */
    PEER_RESULT,    /* what came of the last raw measurement? */
    PEER_LOAD,      /* load values[0] other groups from now on; the answer has what came of the load before */
    PEER_BYE,       /* no more requests */
    PEER_ANSWER,    /* to the request with the same sequence */
    PEER_WARMUP,    /* a message that is not measured */
    PEER_DATA,      /* one that is */
};

/* The topic of requests and answers. */
#define PEER_CONTROL_TOPIC "control"

/* How requests, answers and the reflector's messages begin; those have the stamps too. */
struct peer_header {
    uint32_t sequence; /* counts from 0 in each measurement, or identifies a request */
    uint32_t kind;
};

struct peer_stamped {
    struct peer_header header;
    uint64_t due_at;       /* 0: not stamped */
    uint64_t submitted_at;
};

#define PEER_VALUES 8

struct peer_control {
    struct peer_header header;
    uint64_t values[PEER_VALUES];
    char text[256];
};

struct peer {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic; /* of requests and answers */
    struct llm_topic **topics; /* of data */
    uint64_t topics_opened;
    uint64_t topics_used;
    uint64_t turn;
    struct llm_receiver *receiver;
    struct peer_control answer; /* the last that came */
    uint32_t sequence;          /* of the last request made */
    uint64_t session;           /* of the other end, known from its answers */
    bool gone;                  /* the other end has ended */
    char machine[256];          /* that the other end runs on, known from the greeting */
};

struct peer_channels {
    const char *send;
    const char *receive;
    const struct llm_options *send_options;    /* NULL: the defaults */
    const struct llm_options *receive_options;
};

/* 0, or an LLM_E code; the library has said then what is wrong. */
int peer_open(struct peer *peer, const struct peer_channels *channels, const struct llm_handlers *handlers);
void peer_close(struct peer *peer);

/* Reads the beginning of a message; zero if it is shorter than that. */
static inline struct peer_header peer_read_header(const struct llm_message *message)
{
    struct peer_header header = {0};

    if (message->size >= sizeof header)
        memcpy(&header, message->data, sizeof header);
    return header;
}

/* Reads a request or an answer; what is missing of it is zero. */
void peer_read_control(const struct llm_message *message, struct peer_control *control);

/* For the message handler: keeps an answer for the request that waits for it. */
void peer_take_answer(struct peer *peer, const struct llm_message *message);

/* For the event handler: notices that the other end has ended. */
void peer_take_event(struct peer *peer, const struct llm_event *event);

/* Sends HELLO until it is answered, so either end may be started first. 0, or -1 after patience_ns. */
int peer_greet(struct peer *peer, uint64_t patience_ns);

/* Sends a request and polls until the answer is in peer->answer. 0, or -1 if it does not come. */
int peer_request(struct peer *peer, enum peer_kind kind, const uint64_t *values, int count);

/* Says something that needs no answer. */
void peer_tell(struct peer *peer, enum peer_kind kind);

/* Has data take turns on so many topics from now on, beside that of the requests, and opens those that are missing. 0, or -1
 * with the reason on stderr. */
int peer_use_topics(struct peer *peer, uint64_t count);

/* The topic of the next message of data. */
static inline struct llm_topic *peer_next_topic(struct peer *peer)
{
    struct llm_topic *topic = peer->topics[peer->turn++];

    if (peer->turn >= peer->topics_used)
        peer->turn = 0;
    return topic;
}

/* Answers a HELLO with what this machine is. */
void peer_reply_hello(struct peer *peer, const struct peer_control *request);

/* Answers a request; also from inside a handler. */
void peer_reply(struct peer *peer, const struct peer_control *request, const uint64_t *values, int count, const char *text);

/* Polls the context until a raw end has something to give, so that a lost answer is still repaired. 0, or -1 if nothing comes for
 * a second. */
int peer_await_raw(struct peer *peer, struct raw_end *end);

/* A counter of the objects whose description begins so ("transmitter"), all together. */
uint64_t peer_counter(const struct peer *peer, const char *object, const char *name);

/* Prints every counter that is not zero. */
void peer_print_counters(const struct peer *peer, const char *title);

#endif
