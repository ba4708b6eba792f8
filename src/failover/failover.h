/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of failover groups: a receiver, a transmitter that is silent until it is elected, and the election of the
 * core between them. failover.c opens, closes and drives them, messages.c takes the stream, takeover.c makes a
 * primary, wire.c reads and sends their packets.
 */
#ifndef LLI_FAILOVER_H
#define LLI_FAILOVER_H

#include <llm/failover.h>

#include "core/election/election.h"
#include "core/election/tail.h"
#include "engine/objects.h"

/* X(name, text) */
#define LLI_FAILOVER_COUNTERS(X)                                                                 \
    X(failover_messages, "messages of the stream delivered")                                     \
    X(failover_repeated, "messages that a new primary repeated, which had been delivered")       \
    X(failover_refused, "messages of primaries that were superseded, or never elected, refused") \
    X(failover_missing, "messages of the stream reported missing")                               \
    X(failover_fetched, "messages fetched from other members by a new primary")                  \
    X(failover_snapshots_sent, "snapshots of the application's state sent to other members")     \
    X(failover_snapshots_received, "snapshots restored")                                         \
    X(failover_takeovers, "times that this member became the primary")

struct lli_failover_counters {
#define LLI_FAILOVER_COUNTER_FIELD(name, text) uint64_t name;
    LLI_FAILOVER_COUNTERS(LLI_FAILOVER_COUNTER_FIELD)
#undef LLI_FAILOVER_COUNTER_FIELD
};

enum {
    LLI_FAILOVER_TOPICS = 1024, /* names of topics in the tail */
    LLI_FAILOVER_FETCHED = 256, /* bytes of a message in a packet of the tail */
    LLI_FAILOVER_BATCH = 24,    /* such packets for each request */
};

/* A member that was heard. */
struct lli_failover_peer {
    uint64_t identity;
    struct lli_wire_address address;
    uint32_t surveyed; /* term of its latest survey, at this address; 0: none */
};

/* State of the application, as it is written or arrives. */
struct llm_snapshot {
    uint8_t *data;
    uint64_t size;
    uint64_t room;
};

/* Snapshot that is sent to another member. */
struct lli_failover_sending {
    struct lli_failover_sending *next;
    struct llm_connection *connection;
    struct llm_topic *topic; /* NULL: there is none to send */
    struct llm_snapshot snapshot;
    uint64_t number; /* it is the state before this message */
    uint64_t sent;   /* bytes */
    bool begun;      /* its head was sent */
};

/* Head of a snapshot that arrives. */
struct lli_failover_arriving {
    bool begun;
    uint64_t number;
    uint64_t size;
    uint32_t term;
    uint64_t needed; /* messages from there on come here */
};

/* Messages that a member which begins in the middle of the stream reads from a store. */
struct lli_failover_catch_up {
    char *directory;           /* NULL: it reads none */
    char *keys;                /* key file; NULL: none */
    struct llm_replay *replay; /* of the recording that has the next message; NULL: none is open */
    uint64_t base;             /* number of message 0 of that recording ... */
    uint32_t term;             /* ... and the term that was followed when it was opened */
    bool begun;                /* a primary was heard: it reads, unless the member has all */
    bool warned;               /* of recordings that it leaves out */
    uint64_t needed;           /* messages from there on come here */
    uint64_t hole_end;  /* the store has a later session that begins with this number; UINT64_MAX: none */
    lli_ns look_at;     /* time to read on */
    lli_ns progress_at; /* time of the latest message, gap or warning */
};

/* Message that waits until its primary was heard; its bytes follow. */
struct lli_failover_waiting {
    uint64_t number;
    uint32_t topic;
    uint32_t size;
};

struct llm_failover {
    struct llm_context *context;
    struct llm_failover *next;
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    uint64_t stream;
    struct llm_receiver *receiver;
    struct llm_transmitter *transmitter; /* NULL: no candidate */
    bool linked;                         /* the transmitter is one of its endpoint's */
    struct lli_election election;
    enum llm_role role; /* as reported to the application */
    /* The session whose messages come. */
    uint64_t session;
    uint64_t base;
    uint32_t term;
    bool joined;  /* a message was delivered, or this is the primary: a gap is one */
    uint64_t due; /* number of the next message to deliver; tail.next, unless it waits for a majority */
    struct lli_tail tail;
    uint64_t
        repeatable; /* messages of the tail before this number cannot be repeated: their topic is not known */
    uint8_t *memory; /* of the tail */
    /* Messages that wait, one after the other. */
    uint8_t *waiting;
    uint64_t waiting_bytes;
    uint8_t *delivery; /* the message that is delivered from the tail; NULL: none waits */
    /* The message that is fetched, or repeated: as long as the tail may be. */
    uint8_t *assembly;
    uint64_t assembly_source; /* identity of the member that it is fetched from ... */
    uint64_t assembly_number; /* ... and its number */
    uint32_t assembled;
    uint32_t pieces; /* that came since the latest request */
    lli_ns fetch_at;
    uint64_t repeat;       /* the next message to repeat as primary */
    uint64_t primary_base; /* number of message 0 of the primary's session */
    char (*topics)[LLI_WIRE_NAME_MAX + 1];
    uint32_t topics_count;
    struct lli_failover_peer peers[LLI_ELECTION_PEERS_MAX];
    uint32_t peers_count, peers_next;
    bool warned;
    /* The snapshot that this member needs, and those that it sends. */
    bool restored; /* the application has the state before `due`: that of a stream that begins is nothing */
    struct llm_listener *listener;
    struct lli_failover_sending *sendings;
    struct llm_connection *asking; /* NULL: no snapshot is requested */
    bool asking_failed;
    uint32_t asked; /* requests */
    lli_ns ask_at;
    struct lli_failover_arriving arriving;
    struct llm_snapshot arrived;
    char snapshot_channel[LLI_CHANNEL_TEXT_MAX];
    struct lli_failover_catch_up catch_up;
    struct lli_failover_counters counters;
    char object[LLI_CHANNEL_TEXT_MAX];
};

/* ------------------------------------------------------------------------------------------------- wire.c */

/* Takes a packet that may be of a member. True: it was. */
bool lli_failover_request(void *arg, const struct lli_rx_packet *packet, lli_ns now);

/* Sends what is due to all members. */
void lli_failover_send(struct llm_failover *failover, lli_ns now);

/* Asks for messages that a member which was elected lacks. Returns when it asks again. */
lli_ns lli_failover_fetch(struct llm_failover *failover, lli_ns now);

/* --------------------------------------------------------------------------------------------- messages.c */

/* The handlers of the receiver; the argument is the member. */
void lli_failover_message(void *arg, const struct llm_message *message);
void lli_failover_event(void *arg, const struct llm_event *event);

/*
 * Returns the number of a topic's name; LLI_FAILOVER_TOPICS: it is not known, or there are too many. Such a message
 * cannot be repeated, nor those before it.
 */
uint32_t lli_failover_name(struct llm_failover *failover, const char *name);

/* Takes a message that is next, or later: delivers it, or retains it until a majority has it. */
void lli_failover_take(struct llm_failover *failover, uint64_t number, uint32_t topic,
                       const struct llm_message *message);

/* Delivers the next message. */
void lli_failover_deliver_one(struct llm_failover *failover, uint64_t number,
                              const struct llm_message *message);

/* Reports that the messages before a number cannot be delivered. Before the first one nothing is missing. */
void lli_failover_skip(struct llm_failover *failover, uint64_t number);

/* Delivers the messages that waited until their primary was heard. */
void lli_failover_release(struct llm_failover *failover);

/*
 * Notes that the application has the state before a number. This member cannot repeat the messages before it, so its tail
 * begins there, unless it has some.
 */
void lli_failover_advance(struct llm_failover *failover, uint64_t number);

/* Notes that messages follow without a gap from the next one on, and delivers those that wait. */
void lli_failover_restored(struct llm_failover *failover);

/* Tells the election what this member has. */
void lli_failover_have(struct llm_failover *failover);

/* Delivers the messages that waited until a majority had them. */
void lli_failover_deliver(struct llm_failover *failover);

/* Drops messages that the election found not to be those of the stream. None was delivered. */
void lli_failover_withdraw(struct llm_failover *failover);

/* --------------------------------------------------------------------------------------------- snapshot.c */

/* Listens for requests for snapshots, and lets this member begin without the state, if it exchanges snapshots. */
int lli_failover_snapshot_open(struct llm_failover *failover);

/* Requests a snapshot, if it is needed: a beat of the primary came, whose next message is `next`. */
void lli_failover_snapshot_beat(struct llm_failover *failover, uint64_t next, lli_ns now);

/* Sends what connections take, and restores what has arrived. */
void lli_failover_snapshot_service(struct llm_failover *failover, lli_ns now);

/* Ends the connections and the listener. */
void lli_failover_snapshot_close(struct llm_failover *failover);

/* Frees memory. */
void lli_failover_snapshot_free(struct llm_failover *failover);

/* --------------------------------------------------------------------------------------------- catch_up.c */

/* Lets this member begin without the state, if it reads a store. keys: key file of the channel, "": none. */
int lli_failover_catch_up_open(struct llm_failover *failover, const char *keys);
void lli_failover_catch_up_close(struct llm_failover *failover);

/* A beat of the primary came whose next message is `next`, and whose session has been joined: reads from then on. */
void lli_failover_catch_up_begin(struct llm_failover *failover, uint64_t next, lli_ns now);

/* Returns true if a message of the store was delivered, or reported missing. */
bool lli_failover_catch_up_advanced(const struct llm_failover *failover);

/* Delivers messages of the store, until those that wait follow. Returns when there is more to do. */
lli_ns lli_failover_catch_up_service(struct llm_failover *failover, lli_ns now);

/* --------------------------------------------------------------------------------------------- takeover.c */

/* Becomes the primary, if it is ready, and repeats what others lack. */
void lli_failover_lead(struct llm_failover *failover, lli_ns now);

/* Fences a primary whose lease has expired, or whose transmitter found that. */
void lli_failover_expire(struct llm_failover *failover, lli_ns now);

/* Ends a fenced primary's session: nothing of it is sent any more. */
void lli_failover_stop(struct llm_failover *failover);

/* Returns the number in the stream of the next message that is delivered or, by a primary, sent. */
uint64_t lli_failover_number(const struct llm_failover *failover);

/* Reports a change of the role. */
void lli_failover_report(struct llm_failover *failover);

#endif
