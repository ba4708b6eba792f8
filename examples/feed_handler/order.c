/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <stdlib.h>
#include <string.h>

bool order_table_init(struct order_table *table, uint32_t count_max)
{
    uint32_t slots = 2;

    /* At most half full, so that probe sequences are short. */
    while (slots < 2 * count_max)
        slots *= 2;
    *table = (struct order_table){.mask = slots - 1, .count_max = count_max};
    table->slots = calloc(slots, sizeof *table->slots);
    return table->slots != NULL;
}

void order_table_fini(struct order_table *table)
{
    free(table->slots);
    table->slots = NULL;
}

void order_table_clear(struct order_table *table)
{
    memset(table->slots, 0, ((size_t)table->mask + 1) * sizeof *table->slots);
    table->count = 0;
}

/* References are mostly consecutive; the multiplication spreads them over the upper half of the product. */
static uint32_t order_home(const struct order_table *table, uint64_t reference)
{
    return (uint32_t)(reference * 0x9E3779B97F4A7C15u >> 32) & table->mask;
}

/* Returns the slot of the reference, or the free one where it belongs. */
static struct order *order_slot(const struct order_table *table, uint64_t reference)
{
    uint32_t i = order_home(table, reference);

    while (table->slots[i].shares != 0 && table->slots[i].reference != reference)
        i = (i + 1) & table->mask;
    return &table->slots[i];
}

struct order *order_find(const struct order_table *table, uint64_t reference)
{
    struct order *slot = order_slot(table, reference);

    return slot->shares != 0 ? slot : NULL;
}

bool order_add(struct order_table *table, const struct order *order)
{
    struct order *slot = order_slot(table, order->reference);

    if (slot->shares != 0 || table->count == table->count_max)
        return false;
    *slot = *order;
    table->count++;
    return true;
}

/*
 * Closes the hole by moving back entries that probed past it: without tombstones, a day of adds and deletes
 * does not slow the table down.
 */
void order_del(struct order_table *table, struct order *order)
{
    uint32_t hole = (uint32_t)(order - table->slots);

    for (uint32_t i = (hole + 1) & table->mask; table->slots[i].shares != 0; i = (i + 1) & table->mask) {
        uint32_t home = order_home(table, table->slots[i].reference);

        if (((i - home) & table->mask) >= ((i - hole) & table->mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].shares = 0;
    table->count--;
}
