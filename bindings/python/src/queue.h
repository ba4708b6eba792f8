/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries that wait for the interpreter: copies of what the library delivered in a poll, in its order. Python
 * code runs after the poll, never inside it. Nothing here needs the interpreter or its lock.
 */
#ifndef LLMPY_QUEUE_H
#define LLMPY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/llm.h>

/* One message of a block; libllm/columns.py has the same layout. */
struct record {
    uint64_t session;
    uint64_t number;
    uint64_t received_at; /* CLOCK_REALTIME, ns; 0: unknown */
    uint64_t offset;      /* of its bytes in the data of the block */
    uint32_t size;        /* in bytes */
    uint32_t topic_id;
    uint32_t topic; /* index in the names of the queue */
    uint32_t unused;
};

/* Messages of one object. */
struct block {
    struct record *records;
    char *data;
    size_t count;
    size_t count_max;
    size_t bytes;
    size_t bytes_max;
};

enum delivery_kind { DELIVERY_MESSAGES, DELIVERY_EVENT, DELIVERY_REQUEST, DELIVERY_REPLY, DELIVERY_CALLER };

struct delivery {
    struct delivery *next;
    enum delivery_kind kind;
    void *object;        /* the Python object it is for, borrowed; NULL: discarded */
    struct block *block; /* MESSAGES: owned */
    size_t first;        /* MESSAGES: the first that was not delivered */
    /* EVENT: a copy, with its texts and structures in the bytes behind it. */
    struct llm_event event;
    struct llm_verdict verdict;
    struct llm_bottleneck bottleneck;
    char topic[256], receiver[256], address[256], file[256];
    uint64_t id; /* REQUEST, CALLER */
    enum llm_reason reason;
    uint32_t message_bytes_max; /* CALLER */
    size_t size;
    char data[]; /* REQUEST, REPLY, CALLER */
};

/* Name of a topic of a session. */
struct name {
    uint64_t session;
    const char *text; /* as the library has it; compared, and valid as long as the session is followed */
    uint32_t topic_id;
    char copy[256];
    void *string; /* the interpreter's, made when it is needed */
};

struct queue {
    struct delivery *head, *tail;
    struct delivery *current; /* taken, and being delivered */
    struct block *spare;      /* empty, for reuse */
    struct name *names;
    size_t names_count, names_max;
    size_t name_last;
    uint64_t lost; /* deliveries for which there was no memory */
};

void queue_messages(struct queue *queue, void *object, const struct llm_message *messages, int count);
void queue_event(struct queue *queue, void *object, const struct llm_event *event);

/* Adds a copy of size bytes; returns NULL if there is no memory. */
struct delivery *queue_bytes(struct queue *queue, enum delivery_kind kind, void *object, const void *data,
                             size_t size);

/* Removes and returns the oldest delivery, or NULL; and puts one back that was taken. */
struct delivery *queue_take(struct queue *queue);
void queue_return(struct queue *queue, struct delivery *delivery);

/* Frees a delivery that was taken; its block, if it still has one, becomes the spare. */
void queue_free(struct queue *queue, struct delivery *delivery);

/* Marks what waits for an object as discarded. */
void queue_discard(struct queue *queue, const void *object);

void queue_fini(struct queue *queue);
void block_free(struct block *block);

#endif
