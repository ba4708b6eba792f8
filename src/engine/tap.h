/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tap of a receiver: the calls with which a store follows its sessions packet by packet, or a member of a failover
 * group takes control packets. Other receivers have none, and nothing is called.
 */
#ifndef LLI_TAP_H
#define LLI_TAP_H

#include "core/rx/rx_session.h"

struct lli_tap {
    /*
     * A session was found. True: the call answered LLI_ITEM_JOIN; false: begin as the options say.
     */
    bool (*begin)(void *arg, struct lli_rx *rx, lli_ns now);
    /* A packet is next in order; its messages are delivered after the call. NULL: no packets are recorded. */
    void (*packet)(void *arg, struct lli_rx *rx, const struct lli_rx_recorded *packet);
    /* Takes a control packet that may be for the owner. True: it was. */
    bool (*request)(void *arg, const struct lli_rx_packet *packet, lli_ns now);
    /* An event of the session, before the application gets it. */
    void (*event)(void *arg, struct lli_rx *rx, const struct llm_event *event);
};

#endif
