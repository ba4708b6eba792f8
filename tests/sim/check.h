/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: knows what was sent, and what a receiver may report. Every check reports through sim_fail(). */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "world.h"

/* Checks a message or event delivered to a receiver's application. */
void sim_check_item(struct sim_world *world, struct sim_node *node, const struct lli_item *item);

/* Draws what a session is in the stream of its node. */
void sim_streams_open(struct sim_world *world, struct sim_session *session);

/* Checks an item of a session as one of a stream. */
void sim_streams_item(struct sim_world *world, struct sim_node *node, const struct sim_session *session,
                      const struct lli_item *item);

/* A receiver no longer follows a session; number: of the message that would have come next. */
void sim_streams_left(struct sim_node *node, const struct sim_session *session, uint64_t number);

/* Returns true if another session may have continued the stream of this one. */
bool sim_streams_may_supersede(const struct sim_world *world, const struct sim_session *session);

/* A receiver forgot a session in favour of another. */
void sim_check_replaced(struct sim_world *world, struct sim_node *node, const struct lli_rx *rx);

/* Checks after a repair that all repairs together are within the budget. */
void sim_check_repairs(struct sim_world *world, const struct sim_node *node, uint64_t burst);

/* Checks the address of a repair: not that of a receiver without service. */
void sim_check_repair_to(struct sim_world *world, const struct sim_node *node,
                         const struct lli_wire_address *to);

/* Checks a control packet: no receiver gets more than one notice per evaluation. */
void sim_check_notice(struct sim_world *world, struct sim_node *node, const struct lli_packet *packet);

/*
 * Checks after all due work of a transmitter that no receiver slows the others for longer than the policy
 * allows.
 */
void sim_check_judge(struct sim_world *world, const struct sim_node *node);

/* Checks that the figure in a verdict reached its threshold. */
void sim_check_verdict(struct sim_world *world, const struct llm_event *event);

/*
 * Record that a receiver delivered a message, and that its application acknowledged the messages of a session
 * up to this one.
 */
void sim_check_given(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                     uint64_t number);
void sim_check_done(struct sim_world *world, struct sim_node *node, struct sim_session *session,
                    uint64_t number);

/*
 * Checks acknowledgements reported to a transmitter's application: the required number of receivers delivered
 * the messages.
 */
void sim_check_acknowledged(struct sim_world *world, struct sim_node *node, const struct llm_event *event);

/* Checks that a joining receiver begins with the unacknowledged messages. */
void sim_check_begins(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      uint64_t first);

/*
 * Returns true if no message waits for this receiver that it, and enough others, acknowledged or could
 * acknowledge.
 */
bool sim_check_answered(struct sim_world *world, const struct sim_node *node,
                        const struct sim_session *session);

/* Checks that a receiver's window and memory agree with its counts, and that no NAK is sent too often. */
void sim_check_memory(struct sim_world *world, const struct sim_node *node);

/* Check that a receiver delivered all messages of a living session, and the end of a session that is over. */
bool sim_check_caught_up(struct sim_world *world, const struct sim_node *node,
                         const struct sim_session *session);
bool sim_check_is_over(struct sim_world *world, const struct sim_node *node,
                       const struct sim_session *session);

/* Checks a replay packet to a receiver, or to the group (to NULL). */
void sim_check_replay(struct sim_world *world, const struct sim_node *node, const struct lli_wire_address *to,
                      uint64_t burst);

/* Chooses and records the start position of a receiver in a session. */
struct llm_join sim_check_choose(struct sim_world *world, struct sim_node *node, uint64_t session);

/* Checks that there were many late joiners, and that the sender was not delayed. */
void sim_check_crowd(struct sim_world *world);

/* Last value caches (late.c): chooses if a receiver wants cached messages; ... */
void sim_late_choose(struct sim_world *world, struct llm_join *join);

/* ... a session begins with this message after the cached ones; ... */
void sim_late_begin(const struct sim_world *world, const struct sim_session *session,
                    struct sim_follow *follow, uint64_t first);

/* ... returns true for a cached message, which is checked; ... */
bool sim_late_is_kept(const struct sim_follow *follow, uint64_t number);
void sim_late_message(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                      struct sim_follow *follow, uint64_t number);

/* ... check that all cached messages came when the session goes live, and the reason if they are given up. */
void sim_late_live(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow);
void sim_late_lost(struct sim_world *world, const struct sim_node *node, const struct sim_session *session,
                   struct sim_follow *follow, const struct llm_event *event, bool excused);

/* Rate limits (rates.c): a transmitter starts with the current limits; they change; ... */
void sim_rates_start(const struct sim_world *world, struct sim_node *node);
void sim_rates_change(struct sim_world *world, struct sim_node *node, const struct sim_rate *rate);

/* ... check that a data packet or repair is within them, and that none is blocked longer than necessary. */
void sim_rates_posted(struct sim_world *world, struct sim_node *node, uint32_t size);
void sim_rates_held(struct sim_world *world, struct sim_node *node);
void sim_rates_repaired(struct sim_world *world, struct sim_node *node, uint32_t size);
void sim_rates_repairs_held(struct sim_world *world, struct sim_node *node);

/* Additional time that all work takes because of the limits. */
lli_ns sim_rates_patience(const struct sim_world *world);

/* Checks the number of NAKs for a loss shared by all receivers. */
void sim_check_suppression(struct sim_world *world);

#endif
