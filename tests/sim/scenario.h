/* SPDX-License-Identifier: Apache-2.0 */
/* Scenario of a seed: participants, behaviour of the network, faults and their times. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdio.h>

#include "core/ack/ack.h"
#include "core/flow/flow.h"
#include "core/slow/slow.h"
#include "core/base/types.h"

#define SIM_US ((lli_ns)1000)
#define SIM_MS ((lli_ns)1000000)
#define SIM_S ((lli_ns)1000000000)

enum {
    SIM_TRANSMITTERS_MAX = 4,
    SIM_RECEIVERS_MAX = 200,
    SIM_CROWD = 1000,   /* late joiners, in scenarios of late join */
    SIM_CROWD_LIVE = 8, /* ... beside this many other receivers */
    SIM_NODES_MAX = SIM_TRANSMITTERS_MAX + SIM_CROWD + SIM_CROWD_LIVE,
    SIM_TOPICS_MAX = 48,
    SIM_ASSURED_MAX = 3,
    SIM_FAULTS_MAX = 64,
    SIM_WINDOW_PACKETS = 8, /* fewest packets that a flow-control window of bytes has */
    SIM_RATES_MAX = 4,
};

enum sim_fault_kind {
    SIM_FAULT_PAUSE,   /* a receiver does not read for a while; packets wait in its inbox, and overflow it */
    SIM_FAULT_CUT,     /* nothing reaches a node, nothing leaves it, or both */
    SIM_FAULT_STEP,    /* a node's clock jumps ahead */
    SIM_FAULT_CRASH,   /* a node dies and starts again after a while */
    SIM_FAULT_LEAVE,   /* a receiver leaves in good order and starts again after a while */
    SIM_FAULT_FORGE,   /* a forger who does not know the sessions sends packets to a node */
    SIM_FAULT_RESTART, /* follows a crash */
    SIM_FAULT_RESUME,  /* follows a pause */
    SIM_FAULT_RATE,    /* no fault: rate limits change */
};

struct sim_fault {
    enum sim_fault_kind kind;
    uint32_t node;
    lli_ns at;
    lli_ns ns; /* duration, or distance of the jump */
    bool in;   /* directions of a cut */
    bool out;
    bool one_line; /* it cuts one of two lines: this one */
    uint32_t line;
    uint32_t rate; /* index of the scenario's rate limits */
};

/* Rate limits from some time on; 0: none. */
struct sim_rate {
    lli_ns at;
    uint64_t bytes_per_s;
    uint64_t repair_bytes_per_s;
};

enum sim_sizes { SIM_SIZES_SMALL, SIM_SIZES_PACKET, SIM_SIZES_MIXED, SIM_SIZES_LARGE };

struct sim_scenario {
    uint64_t seed;
    /* Many receivers, one loss shared by all, no other faults: measures the number of NAKs. */
    bool suppression;

    uint32_t transmitters;
    uint32_t receivers;
    uint32_t late;  /* this many of them start while messages flow */
    bool refusing;  /* some receivers refuse some topics */
    bool arriving;  /* some receivers use unordered delivery */
    bool skipping;  /* transmitters leave numbers out */
    bool filtering; /* most messages have labels, and most receivers have a filter for some labels */
    bool joining;   /* receivers choose where they begin */
    bool streams;   /* the sessions of a node are one stream */
    /* Very many join in a short time: earlier receivers must not be affected. */
    bool crowd;

    /* Messages of each transmitter. */
    uint32_t topics;
    uint32_t messages;
    uint32_t burst;    /* maximum of messages packed at a time */
    lli_ns pause_mean; /* mean time between two bursts */
    lli_ns traffic;    /* no message is sent after this */
    enum sim_sizes sizes;
    uint32_t size_max;
    bool claims;
    bool back_pressure; /* the transport does not always take all packets */
    lli_seq start;
    uint64_t number; /* number of the first message; if not 0, the sessions are not young */

    /* Limits of the core. */
    uint32_t packet_max;
    uint64_t history_bytes;
    uint32_t history_packets;
    uint32_t receivers_max;
    uint32_t window_packets;
    uint64_t reorder_bytes;
    uint32_t message_bytes_max;
    uint32_t nak_receivers_immediate;
    uint32_t repair_percent;
    uint64_t repair_bytes_per_s;
    lli_ns heartbeat_min, heartbeat_max, heartbeat_busy;
    lli_ns status, silence, timeout;
    lli_ns nak_delay, nak_backoff_min, nak_retry_min, nak_retry_max, nak_giveup;
    lli_ns repair_linger;
    uint64_t replay_bytes_per_s;
    lli_ns history_ns;
    uint32_t join_else; /* of enum lli_rx_otherwise */
    struct lli_flow_config flow;
    struct lli_slow_policy slow;
    /* Rate limits in force one after the other, the first from the beginning on. */
    uint32_t rates_count;
    struct sim_rate rates[SIM_RATES_MAX];

    /* This many topics, the last ones, are unreliable, but none that is assured. */
    uint32_t unreliable;
    bool transients;              /* some of the others have no history */
    uint32_t keeps;               /* most topics have a cache of this many messages */
    uint32_t assured;             /* this many topics, the first ones, are assured */
    uint32_t named;               /* a receiver's node that has to acknowledge by name; 0: none */
    uint32_t stores;              /* so many receivers' nodes have the names of a pattern; 0: no pattern */
    uint32_t store_names;         /* their number of names: they share them if it is less */
    uint32_t stores_wanted;       /* so many of these names have to acknowledge */
    uint32_t application_percent; /* percentage of the receivers whose applications acknowledge */
    struct lli_ack_rule assurance;

    /* The network; probabilities in parts per million. */
    lli_ns delay_min;
    lli_ns delay_mean;    /* mean of the exponential part */
    uint32_t loss;        /* on the way to a node */
    uint32_t loss_source; /* on the way from a node: shared by all receivers */
    uint32_t loss_burst;  /* mean length of a run of losses, in packets */
    uint32_t reorder;
    uint32_t duplicate;
    uint32_t truncate;     /* truncation that every packet's size field shows */
    bool lossy_to_the_end; /* losses go on after the faults are over */
    uint32_t inbox_packets;
    uint32_t lines; /* 1, or 2, each with these figures */
    bool sealing;   /* most receivers deliver only what is sealed */
    lli_ns skew;    /* the second line is later by this */

    uint32_t faults_count;
    struct sim_fault faults[SIM_FAULTS_MAX];
    lli_ns outage; /* sum of all faults that separate nodes */
    bool forging;
};

void sim_scenario_draw(struct sim_scenario *scenario, uint64_t seed);
void sim_scenario_draw_crowd(struct sim_scenario *scenario, uint64_t seed);

/* Name of a receiver's node, a number from 0 on, that matches the pattern; SIM_STORE_NONE: it has none. */
#define SIM_STORE_NONE UINT32_MAX
uint32_t sim_scenario_store(const struct sim_scenario *scenario, uint32_t node);

void sim_scenario_print(const struct sim_scenario *scenario, FILE *file);

#endif
