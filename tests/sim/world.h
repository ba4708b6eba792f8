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

/* What the oracle remembers of a message. */
struct sim_message {
    lli_seq seq; /* it starts in this packet or a later one */
    uint32_t topic;
    uint32_t size;
    uint32_t label;
    lli_ns at;     /* packed, by the world's time */
    uint32_t held; /* by so many receivers: delivered, and acknowledged by the application that has to */
    bool held_by_named;
};

/* What a session sent; outlives it. */
struct sim_session {
    uint64_t id;
    uint32_t index;
    uint32_t node;
    lli_ns opened_at; /* by the world's time */
    bool alive;
    bool crashed;
    bool closed;
    uint64_t first; /* number of the first message */
    uint64_t end;   /* and of the next */
    struct sim_message *messages;
    size_t room;
    uint32_t topics;
    char names[SIM_TOPICS_MAX][64];
    lli_seq start;
    lli_seq trail; /* when it was last looked at */
};

/*
 * A limit of a rate as it should be kept (rates.c): bytes that may go now, less than 0: that went beforehand.
 */
struct sim_limit {
    uint64_t bytes_per_s; /* 0: none */
    double burst;
    double most;  /* allowed at the most ... */
    double least; /* ... and at the least */
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
    uint64_t acknowledged[SIM_ASSURED_MAX]; /* messages before this one, the application was told */
    uint32_t left;                          /* messages to send */
    uint64_t repair_bytes;
    uint64_t replay_bytes;
    uint64_t data_bytes;
    struct sim_limit data_limit;
    struct sim_limit repair_limit;
    lli_ns held_until; /* by the world's time: the limit holds data no longer, LLI_NEVER: it does not */
    lli_ns opened_at;  /* by the node's clock */
    uint32_t crowd;    /* most receivers known lately ... */
    lli_ns crowd_at;   /* ... and when there were so many */
    struct {
        uint64_t receiver;
        lli_ns at;
    } notices[SIM_TRANSMITTERS_MAX + SIM_RECEIVERS_MAX]; /* the latest, by the node it went to */
};

/* What a receiver did with a session's messages. */
enum sim_mark { SIM_MARK_GIVEN = 1, SIM_MARK_HELD = 2 };

struct sim_marks {
    uint8_t *bytes; /* by the message's place in the session */
    size_t room;
};

/* What the oracle expects of a session at a receiver. */
struct sim_follow {
    bool open;
    bool ended;        /* told of the end, and not followed again */
    bool gapped;       /* a gap was told: names of topics may be unknown */
    uint64_t expected; /* number of the next message */
    uint64_t topics;   /* a bit for each topic told */
    uint64_t refused;  /* a bit for each topic refused */
    uint32_t ends;
    bool left;                       /* the receiver ended it, or forgot it, but no transmitter did: ... */
    uint64_t left_at;                /* ... should it be heard again, this message is next */
    struct llm_join join;            /* as it was asked for */
    uint64_t asked;                  /* number of the first message not sent when it was */
    uint64_t live;                   /* messages before this one were sent before it joined */
    bool late;                       /* in the past, which is being fetched */
    bool young;                      /* in the past of a young session, which comes in the stream */
    bool denied;                     /* that was refused */
    const struct lli_filter *filter; /* of the receiver, NULL: none */
    /* Where messages come as they arrive. */
    struct sim_marks given; /* 1: this message was */
    uint64_t given_end;     /* one past the last of these */
    uint64_t told;          /* one past the last message that was told lost */
    /* Where it joins with what topics keep. */
    bool keeping;                       /* some did when it asked */
    bool latest;                        /* that comes now */
    uint64_t splice;                    /* and this message behind it */
    uint64_t kept_next[SIM_TOPICS_MAX]; /* behind the latest of a topic that came of it */
    uint64_t kept_run[SIM_TOPICS_MAX];  /* so many, up to that one, with none left out between */
};

struct sim_follower {
    struct lli_rx_config config;
    struct lli_rx *sessions;
    uint32_t used;
    uint32_t max;
    struct lli_reorder reorder;
    struct lli_former former;
    struct lli_rx_counters counters;
    uint64_t random;
    void *memory;
    bool refuses;
    struct lli_filter filter;   /* if config.filter is set */
    struct sim_follow *follows; /* by the session's index */
    struct sim_marks *marks;    /* the same */
    uint32_t follows_count;
    struct sim_event *inbox; /* while the node is paused */
    uint32_t inbox_count;
    lli_ns deadline;
};

struct sim_node {
    bool alive;
    bool paused;
    uint32_t index;
    uint32_t starts;
    lli_ns clock;   /* ahead of the world's time */
    lli_ns wake_at; /* of the pending event, LLI_NEVER: none */
    uint64_t wake_version;
    uint32_t idle_wakes; /* one after the other that did nothing and left the deadline in the past */
    struct sim_sender *sender;
    struct sim_follower *follower;
    /* Of an earlier life, by the session's index: the message that was next, 0: not known. */
    uint64_t *seen;
    uint32_t seen_count;
};

struct sim_world {
    struct sim_scenario scenario;
    struct sim_events events;
    struct sim_network network;
    uint64_t random;
    uint64_t random_join;
    lli_ns now;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_session **sessions;
    uint32_t sessions_count;
    struct sim_rate rate; /* in force */
    struct sim_fault *faults;
    uint32_t faults_count;
    uint8_t *scratch;
    bool verbose;
    bool failed;
    uint64_t digest;
    uint64_t delivered;
};

/* Runs a scenario to its end. False if something was violated; that was printed then. */
bool sim_world_run(uint64_t seed, bool crowd, bool verbose, uint64_t *digest, uint64_t *delivered);

/* The time by a node's clock. */
static inline lli_ns sim_node_now(const struct sim_world *world, const struct sim_node *node)
{
    return world->now + node->clock;
}

/* Whether messages of a topic are not repaired. */
static inline bool sim_is_unreliable(const struct sim_world *world, const struct sim_session *session,
                                     uint32_t topic)
{
    return topic + world->scenario.unreliable >= session->topics && topic >= world->scenario.assured;
}

/* Whether a topic has no history; in each session others do not, the first one of some. */
static inline bool sim_is_transient(const struct sim_world *world, const struct sim_session *session,
                                    uint32_t topic)
{
    return world->scenario.transients && topic >= world->scenario.assured &&
           !sim_is_unreliable(world, session, topic) && (topic + session->index) % 3 == 0;
}

/* Whether a topic keeps its last messages: in each session others do not. */
bool sim_is_kept(const struct sim_world *world, const struct sim_session *session, uint32_t topic);

/* Reports a violation, once; nothing more happens in this world. */
void sim_fail(struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(const struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_digest(struct sim_world *world, uint64_t value);

/* sender.c */
void sim_sender_start(struct sim_world *world, struct sim_node *node);
void sim_sender_stop(struct sim_world *world, struct sim_node *node);
void sim_sender_send(struct sim_world *world, struct sim_node *node);
void sim_sender_input(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
void sim_sender_service(struct sim_world *world, struct sim_node *node);

/* The bytes of a message. */
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
