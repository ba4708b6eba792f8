/* SPDX-License-Identifier: Apache-2.0 */
/* Orders, and what the programs of this folder have in common. */
#ifndef ORDER_H
#define ORDER_H

#include <llm/llm.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Clients send orders here, and the gateway publishes them there. */
#define ORDER_CHANNEL "udp://127.0.0.1:5007?interface=lo"
#define JOURNAL_CHANNEL "udp://239.192.1.8:5008?interface=lo"

#define JOURNAL_TOPIC "orders"

/*
 * An order is a line of text, for example "17 buy 100 ACME 42.50": a number that no other order has, and what
 * is to be done. Messages have their size with them, so there is no zero at the end.
 */
enum { ORDER_BYTES_MAX = 128 };

#define ORDER_NUMBER_MAX UINT64_C(10000000)

/* Reads the number of an order. False: these bytes are no order. */
static inline bool order_number(const void *data, size_t size, uint64_t *number)
{
    const char *text = data;
    uint64_t value = 0;
    size_t at = 0;

    for (; at < size && text[at] >= '0' && text[at] <= '9' && value <= ORDER_NUMBER_MAX; at++)
        value = value * 10 + (uint64_t)(text[at] - '0');
    if (at == 0 || at == size || text[at] != ' ' || size > ORDER_BYTES_MAX || value > ORDER_NUMBER_MAX)
        return false;
    *number = value;
    return true;
}

/* Returns the number that an argument has; ends the program if it has none from min to max. */
static inline uint64_t argument_number(const char *text, uint64_t min, uint64_t max)
{
    char *end;
    const uint64_t value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < min || value > max) {
        fprintf(stderr, "\"%s\": a number from %" PRIu64 " to %" PRIu64 " is wanted\n", text, min, max);
        exit(EXIT_FAILURE);
    }
    return value;
}

/* Returns the result; ends the program on failure. The library's log says which value was wrong. */
static inline int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, llm_error_text(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

#endif
