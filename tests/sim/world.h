/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated world: transmitters and receivers that run the production core in virtual time, each by its
 * own clock, as src/engine/endpoint.c and src/api/receiver.c run it in real time.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "core/select/filter.h"
#include "core/rx/former.h"
#include "network.h"
#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

/* The oracle's record of a message. */
struct sim_message {
    lli_seq seq; /* it starts in this packet or a later one */
    uint32_t topic;
    uint32_t size;
    uint32_t label;
    bool skipped;  /* the session has no message of this number */
    lli_ns at;     /* time of packing, by the world's time */
    uint32_t held; /* receivers that delivered it and, where required, whose application acknowledged it */
    bool held_by_named;
    uint8_t held_by_stores; /* a bit for each name of sim_scenario_store() */
};

/* Messages sent by a session; outlives the session. */
struct sim_session {
    uint64_t id;
    uint32_t index;
    uint32_t node;
    lli_ns opened_at; /* by the world's time */
    bool alive;
    bool crashed;
    bool closed;
    uint64_t first; /* number of the first message */
    uint64_t end;   /* number of the next message */
    struct sim_message *messages;
    size_t room;
    uint32_t topics;
    char names[SIM_TOPICS_MAX][64];
    lli_seq start;
    lli_seq trail;   /* trail at the latest check */
    uint64_t stream; /* 0: none */
    uint64_t base;
    uint32_t term;
};

/* Model of a rate limit (rates.c): tokens in bytes; negative: sent in advance. */
struct sim_limit {
    uint64_t bytes_per_s; /* 0: none */
    double burst;
    double most;  /* maximum of allowed bytes ... */
    double least; /* ... and minimum */
    lli_ns at;    /* by the node's clock */
};

struct sim_sender {
    struct lli_tx tx;
    void *memory;
    struct sim_session *session;
    struct lli_pack_topic topics[SIM_TOPICS_MAX];
    struct lli_ack_topic assured[SIM_ASSURED_MAX];
    struct lli_lvc_topic *kept[SIM_TOPICS_MAX];
    void *lvc_memory;
    /* By topic: messages before this one were reported acknowledged. */
    uint64_t acknowledged[SIM_ASSURED_MAX];
    uint32_t left; /* messages to send */
    uint64_t repair_bytes;
    uint64_t replay_bytes;
    uint64_t data_bytes;
    struct sim_limit data_limit;
    struct sim_limit repair_limit;
    /* Latest time, by the world's time, at which the limit blocks data; LLI_NEVER: it does not. */
    lli_ns held_until;
    lli_ns opened_at; /* by the node's clock */
    uint32_t crowd;   /* maximum of receivers known recently ... */
    lli_ns crowd_at;  /* ... and the time of that maximum */
    uint32_t most;    /* maximum as long as one who was heard then may be silent ... */
    lli_ns most_at;   /* ... and its time */
    struct {
        uint64_t receiver;
        lli_ns at;
    } notices[SIM_TRANSMITTERS_MAX + SIM_RECEIVERS_MAX]; /* latest notice, by the node it went to */
};

/* Fate of a session's messages at a receiver. */
enum sim_mark { SIM_MARK_GIVEN = 1, SIM_MARK_HELD = 2 };

struct sim_marks {
    uint8_t *bytes; /* by index of the message in the session */
    size_t room;
};

/* The oracle's state of a session at a receiver. */
struct sim_follow {
    bool open;
    bool ended;          /* the end was reported, and the session is not followed again */
    bool gapped;         /* a gap was reported: names of topics may be unknown */
    uint64_t expected;   /* number of the next message */
    unsigned lines_down; /* a bit for each line that was reported down */
    uint64_t topics;     /* a bit for each reported topic */
    uint64_t refused;    /* a bit for each refused topic */
    uint32_t ends;
    bool left;                       /* the receiver ended or forgot it, but the transmitter did not: ... */
    uint64_t left_at;                /* ... if it is heard again, this message is next */
    struct llm_join join;            /* the requested position */
    uint64_t asked;                  /* number of the first unsent message at the time of the request */
    uint64_t live;                   /* messages before this one were sent before the receiver joined */
    bool late;                       /* the past is being fetched */
    bool young;                      /* the past of a young session is being received in the stream */
    bool denied;                     /* the join was refused */
    const struct lli_filter *filter; /* filter of the receiver; NULL: none */
    /* For unordered delivery. */
    struct sim_marks given; /* 1: this message was delivered */
    uint64_t given_end;     /* one past the last delivered message */
    uint64_t told;          /* one past the last message reported lost */
    /* For a join with cached messages. */
    bool keeping;                       /* some topics had a cache at the time of the request */
    bool latest;                        /* cached messages are being delivered */
    uint64_t splice;                    /* first message of the stream after them */
    uint64_t kept_next[SIM_TOPICS_MAX]; /* by topic: number after the latest cached message */
    uint64_t kept_run[SIM_TOPICS_MAX];  /* by topic: consecutive cached messages up to that one */
};

/* The oracle's state of a stream at a receiver. */
struct sim_stream_view {
    bool known;       /* `next` is valid */
    bool open;        /* the session is followed */
    bool pending;     /* it is new, and what is missing or comes again was not reported yet */
    uint32_t session; /* index of the session followed last */
    uint32_t term;
    uint64_t begin; /* number in the stream with which it begins */
    uint64_t next;  /* number in the stream of the next message */
};

struct sim_follower {
    struct lli_rx_config config;
    struct lli_rx *sessions;
    uint32_t used;
    uint32_t max;
    struct lli_reorder reorder;
    struct lli_former former;
    struct lli_streams streams;
    struct sim_stream_view views[SIM_TRANSMITTERS_MAX]; /* by the node of the transmitter */
    struct lli_rx_counters counters;
    uint64_t random;
    void *memory;
    bool refuses;
    struct lli_filter filter;   /* used if config.filter is set */
    struct sim_follow *follows; /* by index of the session */
    struct sim_marks *marks;    /* likewise */
    uint32_t follows_count;
    struct sim_event *inbox; /* packets received while the node is paused */
    uint32_t inbox_count;
    lli_ns deadline;
    struct sim_seals *seals; /* NULL: delivery waits for no seals */
};

struct sim_node {
    bool alive;
    bool paused;
    uint32_t index;
    uint32_t starts;
    lli_ns clock;   /* offset from the world's time */
    lli_ns wake_at; /* time of the pending event; LLI_NEVER: none */
    uint64_t wake_version;
    uint32_t idle_wakes; /* consecutive wake-ups that did nothing and left the deadline in the past */
    struct sim_sender *sender;
    struct sim_follower *follower;
    /* From an earlier life, by index of the session: the next message; 0: not known. */
    uint64_t *seen;
    uint32_t seen_count;
};

struct sim_world {
    struct sim_scenario scenario;
    struct sim_events events;
    struct sim_network network;
    uint64_t random;
    uint64_t random_join;
    uint64_t random_skip;
    lli_ns now;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_session **sessions;
    uint32_t sessions_count;
    struct sim_rate rate; /* current limits */
    struct sim_fault *faults;
    uint32_t faults_count;
    uint8_t *scratch;
    bool verbose;
    bool failed;
    uint64_t digest;
    uint64_t delivered;
};

/* Runs a scenario to its end. False: a violation occurred, and was printed. */
bool sim_world_run(uint64_t seed, bool crowd, bool verbose, uint64_t *digest, uint64_t *delivered);

/* Has a receiver deliver only what is sealed, if the scenario says so: seals.c. Before its sessions start. */
void sim_seals_start(struct sim_world *world, struct sim_node *node);

/* Returns when the packet is sealed for which a receiver waits, and whether that is so now, once. */
lli_ns sim_seals_due(const struct sim_follower *follower);
bool sim_seals_come(struct sim_follower *follower, lli_ns now);

/* Returns the time by a node's clock. */
static inline lli_ns sim_node_now(const struct sim_world *world, const struct sim_node *node)
{
    return world->now + node->clock;
}

/* Returns true if messages of a topic are not repaired. */
static inline bool sim_is_unreliable(const struct sim_world *world, const struct sim_session *session,
                                     uint32_t topic)
{
    return topic + world->scenario.unreliable >= session->topics && topic >= world->scenario.assured;
}

/* Returns true if a topic has no history; different topics in each session, the first one in some. */
static inline bool sim_is_transient(const struct sim_world *world, const struct sim_session *session,
                                    uint32_t topic)
{
    return world->scenario.transients && topic >= world->scenario.assured &&
           !sim_is_unreliable(world, session, topic) && (topic + session->index) % 3 == 0;
}

/* Returns true if a topic has a cache; different topics in each session. */
bool sim_is_kept(const struct sim_world *world, const struct sim_session *session, uint32_t topic);

/* Reports a violation, once; this world runs no further. */
void sim_fail(struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(const struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_digest(struct sim_world *world, uint64_t value);

/* sender.c */
void sim_sender_start(struct sim_world *world, struct sim_node *node);
void sim_sender_stop(struct sim_world *world, struct sim_node *node);
void sim_sender_send(struct sim_world *world, struct sim_node *node);
void sim_sender_input(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
void sim_sender_service(struct sim_world *world, struct sim_node *node);

/* Fills in the bytes of a message. */
void sim_message_fill(uint8_t *data, uint32_t size, uint64_t session, uint64_t number);
bool sim_message_is(const uint8_t *data, uint32_t size, uint64_t session, uint64_t number);

/* follower.c */
void sim_follower_start(struct sim_world *world, struct sim_node *node);
void sim_follower_stop(struct sim_world *world, struct sim_node *node);
void sim_follower_leave(struct sim_world *world, struct sim_node *node);
void sim_follower_input(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
void sim_follower_service(struct sim_world *world, struct sim_node *node);
lli_ns sim_follower_deadline(const struct sim_follower *follower);
const struct lli_rx *sim_follower_find(const struct sim_follower *follower,
                                       const struct sim_session *session);

/* forge.c */
void sim_forge(struct sim_world *world, const struct sim_fault *fault);

#endif
