/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the flood. The number of a message determines its contents. */
#ifndef FLOOD_MESSAGE_H
#define FLOOD_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOOD_TOPICS = 5,
    FLOOD_QUOTES = 4 /* the topic without history, if any */,
    FLOOD_HEAD = 20,
    FLOOD_SIZE_MAX = 100000
};

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t flood_mix(uint64_t number)
{
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint32_t flood_topic(uint64_t number)
{
    return (uint32_t)(flood_mix(number) >> 56) % FLOOD_TOPICS;
}

/* Sizes: mostly small, some as long as a packet, few span several packets, very few span many. */
static inline uint32_t flood_size(uint64_t number)
{
    const uint64_t mix = flood_mix(number);
    const uint32_t kind = (uint32_t)(mix & 0xffff);
    const uint32_t random = (uint32_t)(mix >> 16 & 0xffffff);

    if (kind < 4)
        return FLOOD_HEAD + random % (FLOOD_SIZE_MAX - FLOOD_HEAD);
    if (kind < 650)
        return FLOOD_HEAD + random % 10000;
    if (kind < 6000)
        return FLOOD_HEAD + random % 1500;
    return FLOOD_HEAD + random % 100;
}

/* FNV-1a over words of 4 bytes: fast enough not to dominate measurements. */
static inline uint32_t flood_sum(const uint8_t *data, uint32_t size)
{
    uint32_t sum = 2166136261u ^ size;
    uint32_t word;
    uint32_t at = 0;

    for (; at + 4 <= size; at += 4) {
        memcpy(&word, data + at, 4);
        sum = (sum ^ word) * 16777619u;
    }
    for (; at < size; at++)
        sum = (sum ^ data[at]) * 16777619u;
    return sum;
}

/* Writes number, time of sending, and the checksum of the rest. */
static inline uint32_t flood_write(uint8_t *data, uint64_t number, uint64_t sent_at)
{
    const uint32_t size = flood_size(number);
    uint32_t sum;

    memcpy(data, &number, 8);
    memcpy(data + 8, &sent_at, 8);
    memset(data + FLOOD_HEAD, (int)(flood_mix(number) >> 40 & 255), size - FLOOD_HEAD);
    if (size > FLOOD_HEAD)
        data[size - 1] = (uint8_t)(number * 7);
    sum = flood_sum(data + FLOOD_HEAD, size - FLOOD_HEAD);
    memcpy(data + 16, &sum, 4);
    return size;
}

/* Returns NULL if this is message `number` as it was written, else the error. */
static inline const char *flood_check(const uint8_t *data, uint32_t size, uint64_t number)
{
    uint64_t written;
    uint32_t sum;

    if (size != flood_size(number))
        return "size";
    memcpy(&written, data, 8);
    memcpy(&sum, data + 16, 4);
    if (written != number)
        return "number";
    if (sum != flood_sum(data + FLOOD_HEAD, size - FLOOD_HEAD))
        return "checksum";
    if (size > FLOOD_HEAD && data[size - 1] != (uint8_t)(number * 7))
        return "contents";
    return NULL;
}

static inline uint64_t flood_sent_at(const uint8_t *data)
{
    uint64_t at;

    memcpy(&at, data + 8, 8);
    return at;
}

#endif
