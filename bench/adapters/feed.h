/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between engine/market.c and a library with topics. A process has a channel to publish on, a
 * channel to subscribe to, or both. Topics are numbered; their names have FEED_NAME_BYTES.
 */
#ifndef BENCH_FEED_H
#define BENCH_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FEED_NAME_BYTES = 12, FEED_TOPICS_MAX = 65536, FEED_SIZE_MAX = 1400 };

struct control;

/* Consecutive topics. */
struct feed_range {
    uint32_t first;
    uint32_t count;
};

/* Configuration of a process. A text that the process does not need is "". */
struct feed_link {
    const struct control *control; /* the command line */
    const char *publish;           /* channels as the library names them */
    const char *subscribe;
    struct feed_range topics; /* published topics */
    const bool *watched;      /* subscription to each topic; NULL: all topics */
    uint32_t topics_max;      /* topics of all publishers */
    uint32_t cache;           /* messages in the last value cache of each published topic */
    size_t size;              /* of a message */
    bool blocks;              /* wait() is used */
};

struct feed {
    const char *name;

    /* Opens both channels. Ends the process if it cannot. */
    void (*open)(const struct feed_link *link);

    /* Accepts a message, and sends it at once unless more follow immediately. False: try again later. */
    bool (*send)(uint32_t topic, const void *data, size_t size, bool more);

    /* Sends queued messages, and passes received ones to market_deliver(). Returns their number. */
    int (*poll)(void);

    /* As poll(), but sleeps until a message arrives or ns have passed. NULL: not available. */
    int (*wait)(uint64_t ns);

    void (*close)(void);
};

extern const struct feed feed_llm;
extern const struct feed feed_bare;
/* Libraries of this program; the first is the default, NULL ends the list. */
extern const struct feed *const market_feeds[];

/* Writes the name of a topic. */
void feed_topic_name(uint32_t topic, char name[FEED_NAME_BYTES + 1]);

/* Reports a received message, from poll(). The callee may send. */
void market_deliver(const void *data, size_t size);

/* Reports, from poll(), that a late joiner has received its last values and is live. */
void market_live(void);

#endif
