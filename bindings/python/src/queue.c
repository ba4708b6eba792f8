/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- blocks */

void block_free(struct block *block)
{
    if (block == NULL)
        return;
    free(block->records);
    free(block->data);
    free(block);
}

static struct block *queue_block(struct queue *queue)
{
    struct block *block = queue->spare;

    queue->spare = NULL;
    return block != NULL ? block : calloc(1, sizeof *block);
}

static bool block_has_room(struct block *block, size_t size)
{
    if (block->count == block->count_max) {
        const size_t max = block->count_max == 0 ? 256 : block->count_max * 2;
        void *records = realloc(block->records, max * sizeof *block->records);

        if (records == NULL)
            return false;
        block->records = records;
        block->count_max = max;
    }
    if (size > block->bytes_max - block->bytes) {
        const size_t max = (block->bytes + size) * 2 + 16384;
        void *data = realloc(block->data, max);

        if (data == NULL)
            return false;
        block->data = data;
        block->bytes_max = max;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------- topics */

static bool name_is(const struct name *name, const struct llm_message *message)
{
    return name->session == message->session && name->topic_id == message->topic_id &&
           name->text == message->topic;
}

/* Returns the index of the topic's name, SIZE_MAX without memory. */
static size_t queue_name(struct queue *queue, const struct llm_message *message)
{
    struct name *name;

    for (size_t i = 0; i < queue->names_count; i++)
        if (name_is(&queue->names[i], message))
            return i;
    if (queue->names_count == queue->names_max) {
        const size_t max = queue->names_max == 0 ? 16 : queue->names_max * 2;
        struct name *names = realloc(queue->names, max * sizeof *names);

        if (names == NULL)
            return SIZE_MAX;
        queue->names = names;
        queue->names_max = max;
    }
    name = &queue->names[queue->names_count];
    *name = (struct name){.session = message->session, .text = message->topic, .topic_id = message->topic_id};
    strncpy(name->copy, message->topic, sizeof name->copy - 1);
    return queue->names_count++;
}

/* --------------------------------------------------------------------------------------------- deliveries */

static struct delivery *queue_add(struct queue *queue, enum delivery_kind kind, void *object, size_t size)
{
    struct delivery *delivery = calloc(1, sizeof *delivery + size);

    if (delivery == NULL) {
        queue->lost++;
        return NULL;
    }
    delivery->kind = kind;
    delivery->object = object;
    delivery->size = size;
    if (queue->tail == NULL)
        queue->head = delivery;
    else
        queue->tail->next = delivery;
    queue->tail = delivery;
    return delivery;
}

static struct block *queue_block_of(struct queue *queue, void *object)
{
    struct delivery *tail = queue->tail;

    if (tail != NULL && tail->kind == DELIVERY_MESSAGES && tail->object == object)
        return tail->block;
    tail = queue_add(queue, DELIVERY_MESSAGES, object, 0);
    if (tail != NULL)
        tail->block = queue_block(queue);
    return tail != NULL ? tail->block : NULL;
}

/* Selects the name of the message's topic; false without memory. */
static bool queue_topic(struct queue *queue, const struct llm_message *message)
{
    if (queue->name_last < queue->names_count && name_is(&queue->names[queue->name_last], message))
        return true;
    queue->name_last = queue_name(queue, message);
    return queue->name_last != SIZE_MAX;
}

static void block_add(struct block *block, const struct llm_message *message, size_t topic)
{
    struct record *record = &block->records[block->count++];

    *record = (struct record){
        .session = message->session,
        .number = message->number,
        .received_at = message->received_at,
        .offset = block->bytes,
        .size = message->size,
        .topic_id = message->topic_id,
        .topic = (uint32_t)topic,
    };
    if (message->size > 0)
        memcpy(block->data + block->bytes, message->data, message->size);
    block->bytes += message->size;
}

void queue_messages(struct queue *queue, void *object, const struct llm_message *messages, int count)
{
    struct block *block = queue_block_of(queue, object);

    for (int i = 0; i < count; i++) {
        if (block != NULL && block_has_room(block, messages[i].size) && queue_topic(queue, &messages[i]))
            block_add(block, &messages[i], queue->name_last);
        else
            queue->lost++;
    }
}

static const char *event_text(char *copy, const char *text)
{
    if (text == NULL)
        return NULL;
    strncpy(copy, text, 255);
    return copy;
}

void queue_event(struct queue *queue, void *object, const struct llm_event *event)
{
    struct delivery *delivery = queue_add(queue, DELIVERY_EVENT, object, 0);

    if (delivery == NULL)
        return;
    delivery->event = *event;
    delivery->event.topic = event_text(delivery->topic, event->topic);
    delivery->event.receiver = event_text(delivery->receiver, event->receiver);
    delivery->event.address = event_text(delivery->address, event->address);
    delivery->event.file = event_text(delivery->file, event->file);
    if (event->verdict != NULL) {
        delivery->verdict = *event->verdict;
        delivery->event.verdict = &delivery->verdict;
    }
    if (event->bottleneck != NULL) {
        delivery->bottleneck = *event->bottleneck;
        delivery->event.bottleneck = &delivery->bottleneck;
    }
}

struct delivery *queue_bytes(struct queue *queue, enum delivery_kind kind, void *object, const void *data,
                             size_t size)
{
    struct delivery *delivery = queue_add(queue, kind, object, size);

    if (delivery != NULL && size > 0)
        memcpy(delivery->data, data, size);
    return delivery;
}

struct delivery *queue_take(struct queue *queue)
{
    struct delivery *delivery = queue->head;

    if (delivery == NULL)
        return NULL;
    queue->head = delivery->next;
    if (queue->head == NULL)
        queue->tail = NULL;
    return delivery;
}

void queue_return(struct queue *queue, struct delivery *delivery)
{
    delivery->next = queue->head;
    queue->head = delivery;
    if (queue->tail == NULL)
        queue->tail = delivery;
}

void queue_free(struct queue *queue, struct delivery *delivery)
{
    struct block *block = delivery->block;

    /* Memory of an unusual burst is not retained. */
    if (block != NULL && queue->spare == NULL && block->bytes_max <= 4 << 20) {
        block->count = block->bytes = 0;
        queue->spare = block;
    } else {
        block_free(block);
    }
    free(delivery);
}

void queue_discard(struct queue *queue, const void *object)
{
    if (queue->current != NULL && queue->current->object == object)
        queue->current->object = NULL;
    for (struct delivery *delivery = queue->head; delivery != NULL; delivery = delivery->next)
        if (delivery->object == object)
            delivery->object = NULL;
}

void queue_fini(struct queue *queue)
{
    struct delivery *delivery;

    while ((delivery = queue_take(queue)) != NULL)
        queue_free(queue, delivery);
    block_free(queue->spare);
    free(queue->names);
    queue->spare = NULL;
    queue->names = NULL;
    queue->names_count = queue->names_max = 0;
}
