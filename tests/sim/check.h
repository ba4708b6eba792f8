/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: knows what was sent, and what a receiver may be told. Every check reports through sim_fail(). */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "world.h"

/* A receiver's application was given a message or an event. */
void sim_check_item(struct sim_world *world, struct sim_node *node, const struct lli_item *item);

/* A receiver forgot a session in favour of another. */
void sim_check_replaced(struct sim_world *world, struct sim_node *node, const struct lli_rx *rx);

/* A repair was sent: all together are within the budget. */
void sim_check_repairs(struct sim_world *world, const struct sim_node *node, uint64_t burst);

/* What a receiver holds is what it accounts for, in its window and in its memory; and no NAK is sent too often. */
void sim_check_memory(struct sim_world *world, const struct sim_node *node);

/* Whether a receiver was given all that a living session sent, and a receiver of a session that is over its end. */
bool sim_check_caught_up(struct sim_world *world, const struct sim_node *node, const struct sim_session *session);
bool sim_check_is_over(struct sim_world *world, const struct sim_node *node, const struct sim_session *session);

/* How many NAKs a loss that all receivers share costs. */
void sim_check_suppression(struct sim_world *world);

#endif
