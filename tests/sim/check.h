/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle: knows what was sent, and what a receiver may be told. Every check reports through sim_fail().
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "world.h"

/* A receiver's application was given a message or an event. */
void sim_check_item(struct sim_world *world, struct sim_node *node, const struct lli_item *item);

/* A receiver forgot a session in favour of another. */
void sim_check_replaced(struct sim_world *world, struct sim_node *node, const struct lli_rx *rx);

/* A repair was sent: all together are within the budget. */
void sim_check_repairs(struct sim_world *world, const struct sim_node *node, uint64_t burst);

/* One went to an address: nobody has it who is not served. */
void sim_check_repair_to(struct sim_world *world, const struct sim_node *node,
                         const struct lli_wire_address *to);

/* A control packet was sent: of notices nobody gets more than one at a judgement. */
void sim_check_notice(struct sim_world *world, struct sim_node *node, const struct lli_packet *packet);

/* A transmitter did all that is due: nobody slows the others for longer than the policy lets him. */
void sim_check_judge(struct sim_world *world, const struct sim_node *node);

/* A verdict says which figure reached which threshold. */
void sim_check_verdict(struct sim_world *world, const struct llm_event *event);

/* A receiver was given a message; its application acknowledged the messages of a session up to this one. */
void sim_check_given(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                     uint64_t number);
void sim_check_done(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                    uint64_t number);

/*
 * A transmitter's application is told of acknowledgements: as many receivers as there should be hold what it
 * is told of.
 */
void sim_check_acknowledged(struct sim_world *world, struct sim_node *node, const struct llm_event *event);

/* Whoever joins begins with what is not acknowledged. */
void sim_check_begins(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      uint64_t first);

/* Whether nothing waits for this receiver that it, and enough others, hold or could. */
bool sim_check_answered(struct sim_world *world, const struct sim_node *node,
                        const struct sim_session *session);

/*
 * What a receiver holds is what it accounts for, in its window and in its memory; and no NAK is sent too
 * often.
 */
void sim_check_memory(struct sim_world *world, const struct sim_node *node);

/*
 * Whether a receiver was given all that a living session sent, and a receiver of a session that is over its
 * end.
 */
bool sim_check_caught_up(struct sim_world *world, const struct sim_node *node,
                         const struct sim_session *session);
bool sim_check_is_over(struct sim_world *world, const struct sim_node *node,
                       const struct sim_session *session);

/* A packet of the past was sent to a receiver, or to the group (to NULL). */
void sim_check_replay(struct sim_world *world, const struct sim_node *node, const struct lli_wire_address *to,
                      uint64_t burst);

/* Where a receiver wants to begin with a session is chosen, and remembered. */
struct llm_join sim_check_choose(struct sim_world *world, struct sim_node *node, uint64_t session);

/* That those who joined late were many, and the sender was not held up. */
void sim_check_crowd(struct sim_world *world);

/* Where messages are kept by topic (late.c): whether a receiver wants them, ... */
void sim_late_choose(struct sim_world *world, struct llm_join *join);

/* ... a session begins with this message behind what is kept, ... */
void sim_late_begin(const struct sim_world *world, const struct sim_session *session,
                    struct sim_follow *follow, uint64_t first);

/* ... whether a message comes of that, and that it may; ... */
bool sim_late_is_kept(const struct sim_follow *follow, uint64_t number);
void sim_late_message(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, uint64_t number);

/* ... that all of it came when the session is live; and that there is a reason to give it up. */
void sim_late_live(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow);
void sim_late_lost(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow, const struct llm_event *event, bool excused);

/* Limits of rates (rates.c): a transmitter started with those in force; they change, ... */
void sim_rates_start(const struct sim_world *world, struct sim_node *node);
void sim_rates_change(struct sim_world *world, struct sim_node *node, const struct sim_rate *rate);

/* ... a packet of data goes, or a repair, which is within them; all of them went that may. */
void sim_rates_posted(struct sim_world *world, struct sim_node *node, uint32_t size);
void sim_rates_held(struct sim_world *world, struct sim_node *node);
void sim_rates_repaired(struct sim_world *world, struct sim_node *node, uint32_t size);
void sim_rates_repairs_held(struct sim_world *world, struct sim_node *node);

/* How much longer everything takes for them. */
lli_ns sim_rates_patience(const struct sim_world *world);

/* How many NAKs a loss that all receivers share costs. */
void sim_check_suppression(struct sim_world *world);

#endif
