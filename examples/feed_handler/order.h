/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live orders by reference: a hash table with linear probing in one block of memory. Nothing allocates after
 * order_table_init().
 */
#ifndef FEED_ORDER_H
#define FEED_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order {
    uint64_t reference;
    uint32_t price;
    uint32_t shares; /* 0: free slot */
    uint16_t locate;
    uint8_t side;
};

struct order_table {
    struct order *slots;
    uint32_t mask;
    uint32_t count;
    uint32_t count_max;
};

/* Allocates a table for count_max orders, 1 to 2^30. False without memory. */
bool order_table_init(struct order_table *table, uint32_t count_max);
void order_table_fini(struct order_table *table);

/* Removes all orders. */
void order_table_clear(struct order_table *table);

/* Returns the order, or NULL; valid until the next add or del. */
struct order *order_find(const struct order_table *table, uint64_t reference);

/* Adds an order, whose shares must not be 0. False if its reference exists or the table is full. */
bool order_add(struct order_table *table, const struct order *order);

/* Removes an order returned by order_find(). */
void order_del(struct order_table *table, struct order *order);

#endif
