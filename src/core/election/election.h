/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Election of the primary of a stream (docs/protocol.md section 12.7): detection, votes, the lease of the primary,
 * and the survey by which a new primary learns what the others have. Terms, one vote a term and the refusal of
 * candidates that lack messages follow Raft (Ongaro and Ousterhout, "In Search of an Understandable Consensus
 * Algorithm", 2014); nothing is written to disk, so a voter that restarts abstains until its promises have lapsed.
 *
 * One rule makes it safe. A voter backs one term at a time, and another only after it has not heard of the first for
 * detect_ns. A primary sends only while a majority has answered packets that it sent within the last lease_ns, which
 * is shorter. So there is no majority for a term before the lease of the one before has expired.
 *
 * With `commits`, members deliver only what a majority of the voters has. Voters tell all members how far they are, and
 * a candidate leads only after it has what a majority of those voters has that remember: that is, that did not restart
 * since they had everything. A message that was delivered is then in every later term.
 *
 * The caller passes packets and the time, and takes packets to send: lli_election_input(), lli_election_output().
 */
#ifndef LLI_ELECTION_H
#define LLI_ELECTION_H

#include "core/base/types.h"

enum {
    LLI_ELECTION_VOTERS_MIN = 3,
    LLI_ELECTION_VOTERS_MAX = 15,
    LLI_ELECTION_PEERS_MAX = 64,  /* members that a survey finds; those beyond are not asked for messages */
    LLI_ELECTION_TERMS = 1 << 16, /* terms of a stream are closer than this; each takeover takes a few */
};

/* Kinds of packets. The values are those of JOIN. */
enum lli_election_kind {
    LLI_ELECTION_CANVASS = 13, /* candidate asks for votes */
    LLI_ELECTION_SURVEY = 14,  /* the candidate that won asks what members have */
    LLI_ELECTION_BEAT = 15,    /* the primary is alive */
    LLI_ELECTION_ANSWER = 16,  /* to one of those */
    LLI_ELECTION_DENIAL = 17,  /* likewise: a higher term is known */
    LLI_ELECTION_HAVE = 20,    /* voter tells all how far it is */
};

/*
 * Place of a member in the stream. Two members that follow the same term have the same messages, as far as they go, and
 * so have two of the same level. Across terms that is known only if no term was missed: `previous` and `begins` tell.
 * Of two members that one is ahead whose level is higher or, with the same level, which has more messages.
 */
struct lli_election_position {
    uint32_t followed; /* term of the latest primary that was followed; 0: none */
    uint32_t level;    /* the latest term of which it has all messages before `begins`; 0: not known */
    uint32_t previous; /* level of the primary of `followed` before its term ... */
    uint64_t begins;   /* ... and number of its own first message */
    uint64_t first;    /* number of the oldest message retained */
    uint64_t next;     /* number after the last message that the member has */
};

struct lli_election_packet {
    enum lli_election_kind kind;
    enum lli_election_kind answered; /* ANSWER: kind of the packet that it answers */
    uint32_t term;                   /* ANSWER: of the packet that it answers; DENIAL: the highest known */
    uint32_t member;                 /* number of the sender, below `voters` if it has a vote */
    uint32_t voters;                 /* number of voters that the sender was opened with */
    uint64_t identity;               /* of the sender's life */
    uint64_t clock;                  /* of the sender, not 0; ANSWER, DENIAL: that of the packet answered */
    bool commits;                    /* the sender was opened with it */
    bool remembers;                  /* ANSWER: the sender has what its earlier lives had */
    uint64_t committed;              /* BEAT: a majority has the messages before this number */
    struct lli_election_position position;
};

enum lli_election_state {
    LLI_ELECTION_BACKUP,     /* follows, and stands for election if the primary is silent */
    LLI_ELECTION_CANVASSING, /* asks for votes */
    LLI_ELECTION_SURVEYING,  /* has won: asks what members have, and fetches what it lacks */
    LLI_ELECTION_READY,      /* has everything: lli_election_lead() is due */
    LLI_ELECTION_PRIMARY,
    LLI_ELECTION_FENCED, /* takes no part any more */
};

enum lli_election_fence {
    LLI_ELECTION_UNFENCED,
    LLI_ELECTION_LEASE,      /* no majority answered within the lease */
    LLI_ELECTION_SUPERSEDED, /* a primary of a higher term is heard */
    /* It has messages that the new primary never got, whose numbers others have now; or that cannot be excluded. */
    LLI_ELECTION_DIVERGED,
    LLI_ELECTION_CONFLICT, /* another member has the same number */
};

struct lli_election_config {
    uint32_t voters;
    uint32_t member; /* the number of this one, below `voters` if it has a vote */
    bool stands;     /* it may become the primary; needs a vote */
    bool commits;    /* messages are delivered when a majority of the voters has them */
    uint64_t identity;
    uint64_t seed;
    lli_ns beat;   /* distance of the packets of a primary or candidate */
    lli_ns lease;  /* shorter than detect by the drift of clocks */
    lli_ns detect; /* silence of a primary after which it may be replaced */
    lli_ns survey; /* time in which members have to answer a survey */
};

struct lli_election_peer {
    uint64_t identity;
    struct lli_election_position position;
    uint32_t member; /* its number as a voter; the number of voters: without a vote, or left out */
    bool remembers;
};

/* Position of a voter in a term: it has the messages before `next`. */
struct lli_election_reach {
    uint32_t term;
    uint64_t next;
};

enum lli_election_delivery {
    LLI_ELECTION_DELIVER,
    LLI_ELECTION_WAIT, /* nothing was heard of their primary yet: ask again after the next packet */
    LLI_ELECTION_DROP,
};

struct lli_election {
    struct lli_election_config config;
    enum lli_election_state state;
    enum lli_election_fence fence;
    uint64_t random;
    uint32_t term;    /* of its candidacy, or as primary */
    uint32_t highest; /* term known ... */
    /* ... and the identity of its candidate, as an earlier life of a member may have used a term; 0: not known */
    uint64_t highest_by;
    /* A primary of this term was elected: messages of lower ones are not delivered, so that the answers to a survey stay true. */
    uint32_t frozen;
    struct lli_election_position position;
    uint64_t followed_by; /* identity of the primary that is followed, 0: not known */
    uint64_t delivered;   /* messages before this number were delivered; `position.next`, unless it commits */
    uint64_t committed;   /* a majority of the voters has the messages before this number */
    bool remembers;       /* has what its earlier lives had: it caught up with a primary */
    lli_ns remember_at;   /* packets from then on are later than those of an earlier life */
    uint64_t remember;    /* number that it has to reach for that; UINT64_MAX: not known yet */
    struct lli_election_reach announced;                        /* the latest that it sent to all */
    struct lli_election_reach reached[LLI_ELECTION_VOTERS_MAX]; /* by each voter that remembers */
    uint32_t backed;                                            /* term that its vote is given to ... */
    uint64_t backed_by;  /* ... and the identity of its candidate ... */
    lli_ns backed_until; /* ... until then */
    lli_ns stand_at;     /* BACKUP: time of its candidacy, if nobody is backed before */
    lli_ns send_at;      /* next packet to all */
    lli_ns since;        /* beginning of the state */
    lli_ns progress_at;  /* SURVEYING: when a message was fetched last, or the source was chosen */
    uint32_t conflicts;  /* packets of another member of the same number */
    bool mismatched;     /* a packet of a member that was opened with another number of voters came */
    lli_ns answered
        [LLI_ELECTION_VOTERS_MAX]; /* latest time whose packets each voter has answered in `term`; 0: none */
    struct lli_election_peer peers[LLI_ELECTION_PEERS_MAX];
    uint32_t peers_count;
};

void lli_election_init(struct lli_election *election, const struct lli_election_config *config, lli_ns now);

/* Notes what this member has: it retains messages from `first` to before `next`. */
void lli_election_has(struct lli_election *election, uint64_t first, uint64_t next, lli_ns now);

/* Returns the number before which messages may be delivered. */
static inline uint64_t lli_election_deliverable(const struct lli_election *election)
{
    return election->config.commits ? lli_min(election->committed, election->position.next)
                                    : election->position.next;
}

/* Notes that the messages before `number` were delivered. What was not delivered can be withdrawn, see there. */
static inline void lli_election_delivered(struct lli_election *election, uint64_t number)
{
    election->delivered = number;
}

/* Begins at the position of another member, whose snapshot this one has. */
void lli_election_restore(struct lli_election *election, const struct lli_election_position *position);

/* Forgets the stream, as if this member had just been opened, but for its promises and the terms it knows. */
void lli_election_forget(struct lli_election *election);

/* Returns true if this member has a vote, and gave it to nobody for the time of a detection. */
static inline bool lli_election_is_alone(const struct lli_election *election, lli_ns now)
{
    return election->config.member < election->config.voters && election->state == LLI_ELECTION_BACKUP &&
           now >= election->backed_until + election->config.detect;
}

/*
 * Returns true if a term is one of the stream that this member follows. Those of an earlier stream of the name are farther
 * away, except by a chance of 1 in 8,192, as its first term was as random.
 */
static inline bool lli_election_is_of_stream(const struct lli_election *election, uint32_t term)
{
    const uint32_t followed = election->position.followed;

    return (followed > term ? followed - term : term - followed) < LLI_ELECTION_TERMS;
}

/* Decides about messages of a primary of this term. */
static inline enum lli_election_delivery lli_election_delivery(const struct lli_election *election,
                                                               uint32_t term)
{
    if (term < election->frozen || term < election->position.followed ||
        election->state == LLI_ELECTION_FENCED)
        return LLI_ELECTION_DROP;
    return term > election->position.followed ? LLI_ELECTION_WAIT : LLI_ELECTION_DELIVER;
}

/*
 * Takes a packet. True: *answer is to be sent to its sender. With `commits`, position.next may be lower after this and
 * after lli_election_output(): the messages from there on are not those of the stream, and have to be dropped.
 */
bool lli_election_input(struct lli_election *election, const struct lli_election_packet *packet, lli_ns now,
                        struct lli_election_packet *answer);

/* Does what is due. True: *packet is to be sent to all members; call again. */
bool lli_election_output(struct lli_election *election, lli_ns now, struct lli_election_packet *packet);

/* Returns the next time at which lli_election_output() has something to do. */
lli_ns lli_election_deadline(const struct lli_election *election);

/* Finds the member from which messages have to be fetched, up to its `next`; NULL: none, or it is not known yet. */
const struct lli_election_peer *lli_election_source(const struct lli_election *election);

/*
 * Makes a member that is READY the primary. Returns the number from which its session repeats messages, so that each
 * member that answered lacks none, as far as they are retained. Check the state: it may have lost its majority.
 */
uint64_t lli_election_lead(struct lli_election *election, lli_ns now);

/* Returns the time until which a primary may send, as far as members have answered. */
lli_ns lli_election_leased_until(const struct lli_election *election);

/* Fences a primary that must send no more. Of other members nothing changes. */
void lli_election_expire(struct lli_election *election);

/* Fences a member whose messages are not those of the stream. */
void lli_election_diverge(struct lli_election *election);

/* Returns true while a primary may send; else it is fenced by the next lli_election_output(). */
bool lli_election_holds(const struct lli_election *election, lli_ns now);

#endif
