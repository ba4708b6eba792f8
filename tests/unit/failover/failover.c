/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a failover group through the public API, over the loop transport: a context for each. */
#define _GNU_SOURCE
#include <llm/llm.h>
#include <stdio.h>
#include <stdlib.h>

#include "key_place.h"
#include "log_lines.h"
#include "../../patience.h"
#include "../../rest.h"

#include "connection/connection.h"
#include "failover/failover.h"

#define CHANNEL                                                                                         \
    "loop://failover:1?mtu=1500&linger_ns=1000000&history_bytes=2M&history_packets=2048&stream=orders&" \
    "reorder_bytes=64K&sessions_max=4&message_bytes_max=64K&topics_max=8&rcvbuf_bytes=64K"

enum { MEMBERS = 4, RECEIVER = 3, SIZE_MAX_SENT = 3000 };

/* Silence after which the primary is replaced: more than the others are not polled here. */
#define DETECT_NS 250000000u

struct member {
    struct llm_context *context;
    struct llm_failover *failover;
    struct llm_topic *topic;
    uint64_t next; /* number expected, or to be sent */
    enum llm_role role;
    uint32_t term;
    bool stopped;
    bool may_lack;   /* a gap is expected */
    uint64_t lacked; /* numbers in it */
    uint64_t sum;    /* state of the application: of the numbers of all messages */
    int saves, restores;
    int error; /* of the next save or restore */
};

static struct member members[MEMBERS];
static enum llm_commit commit;
static uint64_t tail_bytes;
static const char *snapshots;

/* A store that records the channel, in a directory of its own; context NULL: there is none. */
static struct {
    struct llm_context *context;
    struct llm_store *store;
    char directory[40];
    uint64_t from;     /* number of the first message that a member gets of it */
    bool is_read;      /* by members that are opened */
    const char *keys;  /* option of the channel, or "" */
    bool without_keys; /* the library has none */
} recorder = {.keys = ""};

static uint32_t message_size(uint64_t number)
{
    return 8 + (uint32_t)(number * 37 % (SIZE_MAX_SENT - 8));
}

static void on_message(void *arg, uint64_t number, const struct llm_message *message)
{
    struct member *member = arg;

    assert_int_equal(number, member->next);
    assert_int_equal(message->size, message_size(number));
    pattern_check(message->data, message->size, number);
    assert_string_equal(message->topic, number % 2 == 0 ? "even" : "odd");
    member->sum = member->sum * 31 + number;
    member->next++;
}

static void on_gap(void *arg, uint64_t first, uint64_t last)
{
    struct member *member = arg;

    member->lacked += last + 1 - first;
    if (member->may_lack) {
        member->next = last + 1;
        return;
    }
    fail_msg("member %d lacks %llu to %llu", (int)(member - members), (unsigned long long)first,
             (unsigned long long)last);
}

static void on_role(void *arg, enum llm_role role, uint32_t term, uint64_t number)
{
    struct member *member = arg;

    member->role = role;
    member->term = term;
    if (role == LLM_ROLE_PRIMARY)
        assert_int_equal(number, member->next);
}

/* Bytes after the state, so that a snapshot has many messages. */
enum { SNAPSHOT_BYTES = 100000 };

static int on_save(void *arg, uint64_t number, struct llm_snapshot *snapshot)
{
    static uint8_t rest[SNAPSHOT_BYTES];
    struct member *member = arg;
    const int error = member->error;

    assert_int_equal(number, member->next);
    member->saves++;
    member->error = LLM_OK;
    if (error != LLM_OK)
        return error;
    pattern_fill(rest, sizeof rest, number);
    assert_int_equal(llm_snapshot_write(snapshot, &member->sum, sizeof member->sum), LLM_OK);
    return llm_snapshot_write(snapshot, rest, sizeof rest);
}

static int on_restore(void *arg, uint64_t number, const void *data, size_t size)
{
    struct member *member = arg;
    const int error = member->error;

    assert_int_equal(size, SNAPSHOT_BYTES + sizeof member->sum);
    pattern_check((const uint8_t *)data + sizeof member->sum, SNAPSHOT_BYTES, number);
    member->error = LLM_OK;
    if (error != LLM_OK)
        return error;
    assert_int_equal(member->restores, 0);
    member->restores++;
    memcpy(&member->sum, data, sizeof member->sum);
    member->next = number;
    return LLM_OK;
}

static const char *channel_here(void)
{
    static char channel[512];

    (void)snprintf(channel, sizeof channel, "%s%s", CHANNEL, recorder.keys);
    return channel;
}

static int member_open(struct member *member, enum llm_member_kind kind, uint32_t number, uint32_t voters)
{
    struct llm_context_options context;
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;

    *member = (struct member){.context = member->context};
    if (member->context == NULL) {
        llm_context_options_init(&context);
        context.log = log_keep;
        assert_int_equal(llm_context_open(&context, &member->context), LLM_OK);
    }
    llm_failover_options_init(&options);
    options.kind = kind;
    options.member = number;
    options.voters = voters;
    options.detect_ns = patience(DETECT_NS);
    options.tail_bytes = tail_bytes;
    options.commit = commit;
    options.snapshot_channel = snapshots;
    options.store_directory = recorder.is_read ? recorder.directory : NULL;
    options.store_from = recorder.from;
    llm_failover_handlers_init(&handlers);
    handlers.save = on_save;
    handlers.restore = on_restore;
    handlers.arg = member;
    handlers.message = on_message;
    handlers.gap = on_gap;
    handlers.role = on_role;
    return llm_failover_open(member->context, channel_here(), NULL, &options, &handlers, &member->failover);
}

static int open_all(enum llm_commit members_commit, uint64_t bytes)
{
    commit = members_commit;
    tail_bytes = bytes;
    snapshots = NULL;
    log_text[0] = '\0';
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(
            member_open(&members[i], i == RECEIVER ? LLM_MEMBER_RECEIVER : LLM_MEMBER_CANDIDATE, i, 3),
            LLM_OK);
    return 0;
}

static int up(void **state)
{
    (void)state;
    return open_all(LLM_COMMIT_SENT, 1 << 20);
}

#define SNAPSHOTS "loop://failover-snapshots:1?linger_ns=0"

/* Members that begin later get the state of another one. */
static int open_with_snapshots(enum llm_commit members_commit, const char *channel)
{
    const int error = open_all(members_commit, 1 << 20);

    snapshots = channel;
    for (uint32_t i = 0; i < MEMBERS && error == LLM_OK; i++) {
        assert_int_equal(llm_failover_close(&members[i].failover), LLM_OK);
        assert_int_equal(
            member_open(&members[i], i == RECEIVER ? LLM_MEMBER_RECEIVER : LLM_MEMBER_CANDIDATE, i, 3),
            LLM_OK);
    }
    return error;
}

static int up_snapshots(void **state)
{
    (void)state;
    return open_with_snapshots(LLM_COMMIT_SENT, SNAPSHOTS);
}

static int up_snapshots_majority(void **state)
{
    (void)state;
    return open_with_snapshots(LLM_COMMIT_BACKUP, SNAPSHOTS);
}

/* Connections take messages that are shorter than the parts of a snapshot otherwise are. */
static int up_snapshots_short(void **state)
{
    (void)state;
    return open_with_snapshots(LLM_COMMIT_SENT, SNAPSHOTS "&message_bytes_max=1000");
}

/* Not even its head fits. */
static int up_snapshots_too_short(void **state)
{
    (void)state;
    return open_with_snapshots(LLM_COMMIT_SENT, SNAPSHOTS "&message_bytes_max=19");
}

/* Members deliver what a majority has. */
static int up_majority(void **state)
{
    (void)state;
    return open_all(LLM_COMMIT_BACKUP, 1 << 20);
}

static int up_majority_small(void **state)
{
    (void)state;
    return open_all(LLM_COMMIT_BACKUP, 64 << 10);
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(llm_failover_close(&members[i].failover), LLM_OK);
        assert_int_equal(llm_context_close(&members[i].context), LLM_OK);
    }
    return 0;
}

static void poll_all(void)
{
    int delivered = 0;

    for (int i = 0; i < MEMBERS; i++)
        if (!members[i].stopped)
            delivered += llm_poll(members[i].context);
    if (recorder.context != NULL)
        delivered += llm_poll(recorder.context);
    rest_after(delivered);
}

/* Polls until a member that is not stopped is the primary. */
static struct member *primary(void)
{
    for (;;) {
        for (int i = 0; i < MEMBERS; i++)
            if (!members[i].stopped && members[i].role == LLM_ROLE_PRIMARY)
                return &members[i];
        poll_all();
    }
}

static int send_one(struct member *member)
{
    static uint8_t data[SIZE_MAX_SENT];
    struct llm_topic *topic;
    int error = llm_failover_topic(member->failover, member->next % 2 == 0 ? "even" : "odd", &topic);

    if (error != LLM_OK)
        return error;
    pattern_fill(data, message_size(member->next), member->next);
    error = llm_send(topic, data, message_size(member->next), 0);
    if (error == LLM_OK)
        member->sum = member->sum * 31 + member->next++;
    return error;
}

static void send_some(struct member *member, int count)
{
    for (int i = 0; i < count; i++) {
        while (send_one(member) == LLM_EAGAIN)
            poll_all();
        poll_all();
    }
}

static void all_have(uint64_t next)
{
    for (int i = 0; i < MEMBERS; i++)
        while (!members[i].stopped && members[i].next < next)
            poll_all();
}

static void a_backup_goes_on_with_the_next_number(void **state)
{
    struct member *first = primary(), *second;
    const uint32_t term = first->term;

    (void)state;
    send_some(first, 100);
    all_have(100);
    first->stopped = true;
    second = primary();
    assert_ptr_not_equal(first, second);
    assert_true(second->term > term);
    assert_int_equal(llm_failover_next(second->failover), 100);
    send_some(second, 100);
    all_have(200);
    assert_int_equal(llm_failover_next(members[RECEIVER].failover), 200);
}

/* Its first BEAT was lost. */
static void a_member_that_hears_another_session_of_its_term_is_fenced(void **state)
{
    struct member *first = primary();
    struct llm_failover *failover = members[RECEIVER].failover;
    struct llm_event event = {.kind = LLM_EVENT_SESSION_NEW, .stream = failover->stream};

    (void)state;
    send_some(first, 10);
    all_have(10);
    event.session = failover->session;
    event.stream_term = failover->term;
    event.stream_base = failover->base;
    lli_failover_event(failover, &event);
    poll_all();
    assert_int_equal(members[RECEIVER].role, LLM_ROLE_BACKUP);
    event.session++;
    lli_failover_event(failover, &event);
    poll_all();
    assert_int_equal(members[RECEIVER].role, LLM_ROLE_FENCED);
    assert_int_equal(llm_failover_fence(failover), LLM_FENCE_DIVERGED);
}

static void a_primary_that_was_stopped_can_send_no_more(void **state)
{
    struct member *first = primary(), *second;
    struct llm_topic *topic;

    (void)state;
    send_some(first, 10);
    all_have(10);
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    /* The group numbers its messages itself. */
    assert_int_equal(llm_send_numbered(topic, 20, "x", 1, 0), LLM_ESTATE);
    first->stopped = true;
    second = primary();
    assert_int_equal(llm_send(topic, "late", 4, 0), LLM_EFENCED);
    assert_int_equal(llm_send(topic, "late", 4, LLM_SEND_MORE), LLM_EFENCED);
    assert_non_null(strstr(log_text, "is fenced"));
    first->stopped = false;
    while (first->role != LLM_ROLE_FENCED)
        poll_all();
    assert_int_equal(llm_send(topic, "late", 4, 0), LLM_EFENCED);
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_EFENCED);
    assert_int_not_equal(llm_failover_fence(first->failover), LLM_FENCE_NONE);
    send_some(second, 10);
    first->next = 20;
    all_have(20);
}

static void a_primary_that_finds_its_lease_expired_is_fenced_with_the_next_poll(void **state)
{
    struct member *first = primary();
    struct llm_topic *topic;

    (void)state;
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    first->failover->transmitter->leased_until = 0;
    assert_int_equal(llm_send(topic, "late", 4, 0), LLM_EFENCED);
    /* As the answers of the others would extend it. */
    first->failover->transmitter->leased_until = LLI_NEVER;
    assert_true(llm_poll(first->context) >= 0);
    assert_int_equal(first->role, LLM_ROLE_FENCED);
    assert_int_equal(llm_failover_fence(first->failover), LLM_FENCE_LEASE);
    assert_ptr_not_equal(primary(), first);
}

static void what_was_not_sent_when_the_lease_expired_is_never_sent(void **state)
{
    struct member *first = primary();
    struct llm_topic *topic;
    void *claim;

    (void)state;
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "more", 4, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 4, &claim), LLM_OK);
    first->stopped = true;
    (void)primary();
    assert_int_equal(llm_topic_commit(topic, 4, LLM_SEND_NOW), LLM_EFENCED);
    assert_int_equal(llm_topic_abort(topic), LLM_EFENCED);
    assert_true(llm_poll(first->context) >= 0);
    assert_int_equal(first->role, LLM_ROLE_FENCED);
    for (int i = 0; i < 1000; i++)
        poll_all();
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].failover->counters.failover_refused, 0);
}

static uint64_t packets_of(const struct llm_failover *failover)
{
    return failover->transmitter->tx.sent;
}

static void a_primary_without_the_lease_sends_nothing_in_a_poll_nor_when_it_is_closed(void **state)
{
    struct member *first = primary();
    struct llm_topic *topic;
    uint64_t sent;

    (void)state;
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "more", 4, LLM_SEND_MORE), LLM_OK);
    sent = packets_of(first->failover);
    first->failover->transmitter->leased_until = 0;
    assert_true(llm_poll(first->context) >= 0);
    assert_int_equal(packets_of(first->failover), sent);
    assert_int_equal(first->role, LLM_ROLE_FENCED);
    first = primary();
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    assert_int_equal(llm_send(topic, "more", 4, LLM_SEND_MORE), LLM_OK);
    memset(first->failover->election.answered, 0, sizeof first->failover->election.answered);
    assert_int_equal(llm_failover_close(&first->failover), LLM_OK);
    for (int i = 0; i < 1000; i++)
        poll_all();
    /* A message with the wrong bytes would have been delivered. */
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].next, 0);
}

static void what_a_receiver_was_given_is_fetched_from_it(void **state)
{
    struct member *first = primary(), *second;
    uint64_t fetched = 0, repeated = 0;

    (void)state;
    send_some(first, 10);
    all_have(10);
    for (int i = 0; i < RECEIVER; i++)
        members[i].stopped = &members[i] != first;
    /* The backups' buffers overflow; the receiver has everything. */
    send_some(first, 200);
    while (members[RECEIVER].next < 210)
        poll_all();
    for (int i = 0; i < RECEIVER; i++)
        members[i].stopped = &members[i] == first;
    second = primary();
    assert_int_equal(llm_failover_next(second->failover), 210);
    fetched = second->failover->counters.failover_fetched;
    assert_true(fetched > 0);
    send_some(second, 10);
    all_have(220);
    for (int i = 0; i < MEMBERS; i++)
        repeated += members[i].failover->counters.failover_repeated;
    assert_true(repeated > 0);
}

/* Fills the buffers of members that are not polled, by a session of no stream. */
static void fill(struct member *by)
{
    static uint8_t data[1000];
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;

    assert_int_equal(llm_transmitter_open(by->context,
                                          "loop://failover:1?linger_ns=0&history_bytes=2M&mtu=1500", NULL,
                                          NULL, &transmitter),
                     LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "other", 0, &topic), LLM_OK);
    for (int i = 0; i < 300; i++) {
        (void)llm_send(topic, data, sizeof data, LLM_SEND_NOW);
        poll_all();
    }
    (void)llm_transmitter_close(&transmitter);
}

static void a_member_that_did_not_run_gets_what_it_lacks_from_the_new_primary(void **state)
{
    struct member *first = primary(), *second, *slow = &members[RECEIVER];

    (void)state;
    send_some(first, 10);
    all_have(10);
    slow->stopped = true;
    fill(first);
    first->stopped = true;
    second = primary();
    send_some(second, 40);
    /* Its session is no longer young. */
    for (const uint64_t until = llm_clock() + 1500000000u; llm_clock() < until;)
        poll_all();
    slow->stopped = false;
    send_some(second, 10);
    all_have(60);
}

static void a_session_of_no_stream_changes_nothing(void **state)
{
    struct member *first = primary();

    (void)state;
    send_some(first, 10);
    fill(first);
    send_some(first, 10);
    all_have(20);
}

static void a_member_that_joins_late_begins_in_the_middle(void **state)
{
    struct member *first = primary();
    int late = first == &members[2] ? 1 : 2;

    (void)state;
    send_some(first, 10);
    all_have(10);
    assert_int_equal(llm_failover_close(&members[late].failover), LLM_OK);
    assert_int_equal(member_open(&members[late], LLM_MEMBER_CANDIDATE, (uint32_t)late, 3), LLM_OK);
    for (int i = 0; i < 2000; i++)
        poll_all();
    members[late].next = 10;
    send_some(first, 10);
    all_have(20);
}

static void values_out_of_their_range_are_refused(void **state)
{
    struct member *member = &members[RECEIVER];
    struct llm_failover *another;
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    struct llm_topic *topic;

    (void)state;
    llm_failover_options_init(&options);
    llm_failover_handlers_init(&handlers);
    options.voters = 2;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    assert_non_null(strstr(log_text, "no majority"));
    options.voters = 3;
    options.member = 3;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    options.member = 0;
    options.detect_ns = 3 * options.beat_ns;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    options.detect_ns = 0;
    options.beat_ns = 1;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    llm_failover_options_init(&options);
    options.voters = 3;
    options.tail_bytes = 1;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    options.tail_bytes = 4096;
    assert_int_equal(
        llm_failover_open(member->context, "loop://failover:2", NULL, &options, &handlers, &another),
        LLM_EOPTION);
    assert_non_null(strstr(log_text, "name the stream"));
    assert_int_equal(
        llm_failover_open(member->context, CHANNEL "&stream_merge=1", NULL, &options, &handlers, &another),
        LLM_EOPTION);
    assert_non_null(strstr(log_text, "stream_merge is 1"));
    options.commit = (enum llm_commit)2;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    options.commit = LLM_COMMIT_SENT;
    options.kind = (enum llm_member_kind)3;
    assert_int_equal(llm_failover_open(member->context, CHANNEL, NULL, &options, &handlers, &another),
                     LLM_EOPTION);
    assert_int_equal(llm_failover_topic(member->failover, "even", &topic), LLM_ESTATE);
}

/* Lets members other than the primary and the receiver stand still, or go on. */
static void stop_backups(const struct member *but, bool stopped)
{
    for (int i = 0; i < RECEIVER; i++)
        members[i].stopped = &members[i] != but && stopped;
}

static void a_message_waits_until_a_majority_has_it(void **state)
{
    struct member *first = primary(), *receiver = &members[RECEIVER];
    struct llm_failover *failover = first->failover;

    (void)state;
    send_some(first, 10);
    all_have(10);
    while (llm_failover_committed(failover) < 10)
        poll_all();
    stop_backups(first, true);
    send_some(first, 10);
    while (receiver->failover->tail.next < 20)
        poll_all();
    assert_int_equal(receiver->next, 10);
    assert_int_equal(llm_failover_next(receiver->failover), 10);
    assert_int_equal(llm_failover_next(failover), 20);
    assert_int_equal(llm_failover_committed(failover), 10);
    stop_backups(first, false);
    all_have(20);
    while (llm_failover_committed(failover) < 20)
        poll_all();
    assert_int_equal(receiver->failover->counters.failover_messages, 20);
}

static void what_waited_is_delivered_by_the_next_primary(void **state)
{
    struct member *first = primary(), *receiver = &members[RECEIVER], *second;

    (void)state;
    send_some(first, 10);
    all_have(10);
    stop_backups(first, true);
    send_some(first, 10);
    while (receiver->failover->tail.next < 20)
        poll_all();
    stop_backups(first, false);
    first->stopped = true;
    second = primary();
    assert_int_equal(llm_failover_next(second->failover), 20);
    all_have(20);
    send_some(second, 10);
    all_have(30);
}

static void a_voter_that_restarted_counts_when_it_has_caught_up(void **state)
{
    struct member *first = primary();
    struct member *again = first == &members[2] ? &members[1] : &members[2];
    const uint32_t number = (uint32_t)(again - members);

    (void)state;
    send_some(first, 10);
    all_have(10);
    assert_int_equal(llm_failover_close(&again->failover), LLM_OK);
    assert_int_equal(member_open(again, LLM_MEMBER_CANDIDATE, number, 3), LLM_OK);
    assert_false(again->failover->election.remembers);
    for (int i = 0; i < 2000; i++)
        poll_all();
    again->next = 10;
    while (!again->failover->election.remembers)
        send_some(first, 1);
    for (int i = 0; i < RECEIVER; i++)
        members[i].stopped = &members[i] != first && &members[i] != again;
    send_some(first, 10);
    all_have(first->next);
}

static void messages_that_wait_and_find_no_room_are_reported(void **state)
{
    struct member *first = primary(), *receiver = &members[RECEIVER];

    (void)state;
    send_some(first, 10);
    all_have(10);
    receiver->may_lack = true;
    stop_backups(first, true);
    send_some(first, 60);
    while (receiver->failover->tail.next < 70)
        poll_all();
    assert_true(receiver->lacked > 0);
    assert_int_equal(receiver->next, 10 + receiver->lacked);
    stop_backups(first, false);
    all_have(70);
    assert_int_equal(receiver->failover->counters.failover_missing, receiver->lacked);
    assert_int_equal(receiver->failover->counters.failover_messages, 70 - receiver->lacked);
}

/* Closes a member and opens it anew. The session is not young any more, so that it is not followed from its beginning. */
static struct member *reopen(const struct member *first, struct member *again)
{
    first->failover->transmitter->tx.opened_at -= 5000000000u;
    poll_all();
    assert_int_equal(llm_failover_close(&again->failover), LLM_OK);
    assert_int_equal(member_open(again,
                                 again == &members[RECEIVER] ? LLM_MEMBER_RECEIVER : LLM_MEMBER_CANDIDATE,
                                 (uint32_t)(again - members), 3),
                     LLM_OK);
    return again;
}

static struct member *backup_of(const struct member *first)
{
    return first == &members[2] ? &members[1] : &members[2];
}

static struct member *reopen_backup(const struct member *first)
{
    return reopen(first, backup_of(first));
}

/* Reopens a backup, and polls until a part of a snapshot has come. If all of it comes at once, another one is awaited. */
static struct member *reopen_amid_snapshot(const struct member *first)
{
    struct member *again;

    do {
        again = reopen_backup(first);
        while (!again->failover->arriving.begun && again->restores == 0)
            poll_all();
    } while (!again->failover->arriving.begun);
    return again;
}

/* A member that has the state may lead, and others get their messages of it. */
static void leads_after(const struct member *again, struct member *first)
{
    for (int i = 0; i < RECEIVER; i++)
        members[i].failover->options.kind = &members[i] == again ? LLM_MEMBER_CANDIDATE : LLM_MEMBER_VOTER;
    while (commit == LLM_COMMIT_BACKUP && !again->failover->election.remembers)
        poll_all();
    first->stopped = true;
    assert_ptr_equal(primary(), again);
    assert_int_equal(llm_failover_next(again->failover), first->next);
    send_some(primary(), 10);
    all_have(again->next);
}

static void a_member_that_begins_later_has_the_state_of_another(void **state)
{
    struct member *first = primary(), *again;
    int saves = 0;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_backup(first);
    while (again->restores == 0)
        send_some(first, 1);
    all_have(first->next);
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].sum, first->sum);
        saves += members[i].saves;
    }
    assert_int_equal(first->saves, 0);
    assert_int_equal(saves, 1);
    assert_int_equal(again->failover->counters.failover_snapshots_received, 1);
    leads_after(again, first);
}

static void a_primary_sends_its_state_if_there_is_nobody_else(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_backup(first);
    for (int i = 0; i < MEMBERS; i++)
        members[i].failover->restored = &members[i] == first;
    while (again->restores == 0)
        poll_all();
    assert_true(first->saves > 0);
    assert_int_equal(again->sum, first->sum);
    assert_int_equal(llm_failover_next(again->failover), 50);
}

static void a_snapshot_that_fails_is_requested_again(void **state)
{
    struct member *first = primary(), *again, *receiver = &members[RECEIVER];
    struct member *other = first == &members[1] ? &members[0] : &members[1];

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_backup(first);
    other = again == other ? &members[0] : other;
    /* The application has none, once. */
    receiver->error = other->error = first->error = LLM_ESTATE;
    /* And refuses one. */
    again->error = LLM_EINVAL;
    while (again->restores == 0)
        poll_all();
    assert_int_equal(again->sum, first->sum);
    assert_non_null(strstr(log_text, "no snapshot for another member at number 50"));
    assert_non_null(strstr(log_text, "the application refused a snapshot"));
    /* The connection ends in the middle. */
    again = reopen_amid_snapshot(first);
    again->failover->asking_failed = true;
    while (again->restores == 0)
        poll_all();
    assert_int_equal(again->sum, first->sum);
}

static void a_receiver_waits_for_the_state_as_long_as_it_takes(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen(first, &members[RECEIVER]);
    /* As if it had been opened long ago: it never gave a vote. */
    again->failover->election.backed_until = 0;
    while (again->restores == 0)
        send_some(first, 1);
    all_have(first->next);
    assert_int_equal(again->sum, first->sum);
}

static void members_without_the_state_begin_anew_if_nobody_has_it(void **state)
{
    struct member *first = primary();

    (void)state;
    send_some(first, 50);
    all_have(50);
    /* Two join, and get none, as the only one that has the state ends. */
    for (int i = 0; i < RECEIVER; i++)
        if (&members[i] != first) {
            assert_int_equal(llm_failover_close(&members[i].failover), LLM_OK);
            assert_int_equal(member_open(&members[i], LLM_MEMBER_CANDIDATE, (uint32_t)i, 3), LLM_OK);
            members[i].failover->restored = false;
            lli_election_restore(
                &members[i].failover->election,
                &(struct lli_election_position){.followed = first->term, .next = 50, .first = 40});
        }
    members[RECEIVER].stopped = true;
    assert_int_equal(llm_failover_close(&first->failover), LLM_OK);
    assert_int_equal(member_open(first, LLM_MEMBER_CANDIDATE, (uint32_t)(first - members), 3), LLM_OK);
    assert_int_equal(llm_failover_next(primary()->failover), 0);
    send_some(primary(), 10);
    all_have(10);
}

static void a_snapshot_from_before_the_messages_that_wait_is_not_restored(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_amid_snapshot(first);
    /* As if the tail had been too short. */
    lli_tail_reset(&again->failover->tail, 90);
    lli_failover_have(again->failover);
    while (strstr(log_text, "does not fit messages 90 to") == NULL)
        poll_all();
    assert_int_equal(again->restores, 0);
    lli_tail_reset(&again->failover->tail, 0);
    lli_failover_have(again->failover);
    while (again->restores == 0)
        poll_all();
}

static void a_snapshot_that_cannot_be_sent_is_reported(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_backup(first);
    while (strstr(log_text, "cannot be sent: message too long") == NULL)
        poll_all();
    assert_non_null(strstr(log_text, "message_bytes_max=19 has to take messages of 20 bytes"));
    assert_int_equal(again->restores, 0);
}

static void a_head_of_another_size_ends_a_snapshot(void **state)
{
    static const uint8_t head[19];
    const struct llm_message message = {.data = head, .size = sizeof head};
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_backup(first);
    while (again->failover->asking == NULL)
        poll_all();
    again->failover->asking->handlers.message(again->failover, again->failover->asking, &message);
    assert_true(again->failover->asking_failed);
    while (again->restores == 0)
        poll_all();
    assert_int_equal(again->sum, first->sum);
}

/* Whatever its handlers' argument is. */
static void store_open(void)
{
    struct llm_context_options context;
    struct llm_store_options options;

    llm_context_options_init(&context);
    context.log = log_keep;
    assert_int_equal(llm_context_open(&context, &recorder.context), LLM_OK);
    llm_store_options_init(&options);
    options.directory = recorder.directory;
    options.level = LLM_STORE_WRITTEN;
    options.segment_bytes = 16 << 20;
    options.spares = 0;
    options.reserve_bytes = 0;
    assert_int_equal(llm_store_open(recorder.context, &options, NULL, &recorder.store), LLM_OK);
    assert_int_equal(llm_store_follow(recorder.store, channel_here(), NULL), LLM_OK);
}

static void store_close(void)
{
    assert_int_equal(llm_store_close(&recorder.store), LLM_OK);
    assert_int_equal(llm_context_close(&recorder.context), LLM_OK);
    recorder.context = NULL;
}

static void place_make(void)
{
    memset(&recorder, 0, sizeof recorder);
    recorder.keys = "";
    strcpy(recorder.directory, "/tmp/llm-failover-XXXXXX");
    assert_non_null(mkdtemp(recorder.directory));
}

static int up_recorded(enum llm_commit members_commit)
{
    place_make();
    store_open();
    return open_all(members_commit, 64 << 10);
}

/* The key file lies in the directory of the store. */
static int up_store_keys(void **state)
{
    static char keys[64];
    struct llm_replay_options options;
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay = NULL;

    (void)state;
    place_make();
    (void)snprintf(keys, sizeof keys, "&keys=%s/keys", recorder.directory);
    key_file_write(keys + strlen("&keys="), KEY_EPOCH(1, "aes-256-gcm", KEY_A, "*"));
    llm_replay_options_init(&options);
    options.keys = keys + strlen("&keys=");
    llm_receiver_handlers_init(&handlers);
    recorder.without_keys =
        llm_replay_open(recorder.directory, &options, &handlers, log_keep, NULL, &replay) == LLM_EOPTION;
    (void)llm_replay_close(&replay);
    recorder.keys = recorder.without_keys ? "" : keys;
    store_open();
    return open_all(LLM_COMMIT_SENT, 64 << 10);
}

static int up_store(void **state)
{
    (void)state;
    return up_recorded(LLM_COMMIT_SENT);
}

static int up_store_majority(void **state)
{
    (void)state;
    return up_recorded(LLM_COMMIT_BACKUP);
}

static int down_store(void **state)
{
    char command[64];

    if (recorder.context != NULL)
        store_close();
    recorder.is_read = false;
    recorder.keys = "";
    (void)snprintf(command, sizeof command, "rm -r %s", recorder.directory);
    return down(state) != 0 ? -1 : system(command);
}

/* Closes a member that is not the primary and opens it anew; it reads the store from a number on. */
static struct member *reopen_with_store(const struct member *first, struct member *again, uint64_t from)
{
    recorder.is_read = true;
    recorder.from = from;
    (void)reopen(first, again);
    again->next = from;
    return again;
}

static void a_member_that_begins_later_gets_all_messages_of_a_store(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 300);
    all_have(300);
    again = reopen_with_store(first, backup_of(first), 0);
    while (!again->failover->catch_up.begun)
        send_some(first, 1);
    /* The tail has no room for what is sent meanwhile. */
    again->stopped = true;
    send_some(first, 100);
    again->stopped = false;
    all_have(first->next);
    assert_int_equal(again->lacked, 0);
    assert_int_equal(again->sum, first->sum);
    leads_after(again, first);
}

static void the_messages_of_several_primaries_are_one_sequence(void **state)
{
    struct member *first = primary(), *second;

    (void)state;
    send_some(first, 40);
    all_have(40);
    first->stopped = true;
    second = primary();
    send_some(second, 40);
    all_have(80);
    /* The application of the first one has the first ten. */
    (void)reopen_with_store(second, first, 10);
    while (first->next == 10)
        send_some(second, 1);
    all_have(second->next);
    assert_int_equal(first->lacked, 0);
}

/* Nothing is sent meanwhile: the last messages of the recording come all the same. */
static void a_recording_with_keys_is_read_to_its_end(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    if (recorder.without_keys)
        skip();
    send_some(first, 50);
    all_have(50);
    again = reopen_with_store(first, backup_of(first), 0);
    all_have(50);
    assert_int_equal(again->sum, first->sum);
    assert_int_equal(again->lacked, 0);
}

static void what_a_store_lacks_is_reported(void **state)
{
    struct member *first = primary(), *second;

    (void)state;
    send_some(first, 20);
    all_have(20);
    store_close();
    /* The history of a new primary begins with what was not recorded. */
    send_some(first, 20);
    all_have(40);
    first->stopped = true;
    second = primary();
    send_some(second, 5);
    all_have(45);
    store_open();
    reopen_with_store(second, first, 0)->may_lack = true;
    all_have(45);
    send_some(second, 5);
    all_have(50);
    assert_int_equal(first->lacked, 20);
}

/* The terms of a stream begin after this one, and not at random. */
static void begin_after(uint32_t term)
{
    for (int i = 0; i < MEMBERS; i++)
        members[i].failover->election.highest = term;
}

/* The store has the messages of an earlier group of the name, from number 0 on, and lacks the first ones of this one. */
static void recordings_of_an_earlier_stream_are_left_out(void **state)
{
    struct member *first, *second;

    (void)state;
    begin_after(1000);
    first = primary();
    send_some(first, 20);
    all_have(20);
    store_close();
    (void)down(NULL);
    assert_int_equal(open_all(commit, tail_bytes), 0);
    begin_after(1000 + LLI_ELECTION_TERMS);
    first = primary();
    send_some(first, 20);
    all_have(20);
    first->stopped = true;
    second = primary();
    send_some(second, 5);
    all_have(25);
    store_open();
    reopen_with_store(second, first, 0)->may_lack = true;
    all_have(25);
    assert_int_equal(first->lacked, 20);
    assert_int_equal(logged_count("recordings of an earlier stream"), 1);
}

static void a_member_whose_stream_begins_anew_while_it_reads_is_fenced(void **state)
{
    struct member *first = primary(), *again;

    (void)state;
    send_some(first, 50);
    all_have(50);
    again = reopen_with_store(first, backup_of(first), 0);
    while (again->next == 0)
        poll_all();
    all_have(50);
    /* As if the store had more. */
    again->failover->restored = false;
    again->failover->catch_up.look_at = LLI_NEVER - 1;
    for (int i = 0; i < MEMBERS; i++)
        members[i].stopped = &members[i] != again;
    while (again->role != LLM_ROLE_FENCED)
        poll_all();
    assert_int_equal(llm_failover_fence(again->failover), LLM_FENCE_DIVERGED);
}

static void a_stream_that_begins_is_not_read_from_a_store(void **state)
{
    (void)state;
    recorder.is_read = true;
    recorder.from = 5;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(llm_failover_close(&members[i].failover), LLM_OK);
        assert_int_equal(
            member_open(&members[i], i == RECEIVER ? LLM_MEMBER_RECEIVER : LLM_MEMBER_CANDIDATE, i, 3),
            LLM_OK);
    }
    send_some(primary(), 10);
    all_have(10);
}

static void a_directory_that_is_not_there_is_refused(void **state)
{
    struct member *other = primary() == &members[1] ? &members[0] : &members[1];

    (void)state;
    assert_int_equal(llm_failover_close(&other->failover), LLM_OK);
    snapshots = NULL;
    recorder.is_read = true;
    strcpy(recorder.directory, "/nowhere");
    assert_int_equal(member_open(other, LLM_MEMBER_CANDIDATE, (uint32_t)(other - members), 3), LLM_ENOTFOUND);
    assert_non_null(strstr(log_text, "/nowhere"));
    recorder.is_read = false;
}

static void connections_of_the_application_stay(void **state)
{
    struct llm_connection_handlers handlers;
    struct llm_connection *connection;

    (void)state;
    llm_connection_handlers_init(&handlers);
    handlers.arg = members[0].failover;
    assert_int_equal(llm_connection_open(members[0].context, "loop://failover-application:1?linger_ns=0",
                                         NULL, &handlers, NULL, &connection),
                     LLM_OK);
    assert_int_equal(llm_failover_close(&members[0].failover), LLM_OK);
    assert_ptr_equal(members[0].context->connections, connection);
    assert_int_equal(llm_connection_close(&connection), LLM_OK);
}

static void a_message_that_waits_fits_the_tail(void **state)
{
    static uint8_t data[4097];
    struct member *first;
    struct llm_topic *topic;

    (void)state;
    assert_int_equal(open_all(LLM_COMMIT_BACKUP, 4096), LLM_OK);
    first = primary();
    assert_int_equal(llm_failover_topic(first->failover, "even", &topic), LLM_OK);
    assert_int_equal(llm_send(topic, data, sizeof data, 0), LLM_EMSGSIZE);
    assert_non_null(strstr(log_text, "at most 4096"));
}

static void a_member_that_commits_otherwise_is_ignored(void **state)
{
    struct member *odd = &members[2];

    (void)state;
    assert_int_equal(llm_failover_close(&odd->failover), LLM_OK);
    commit = LLM_COMMIT_BACKUP;
    assert_int_equal(member_open(odd, LLM_MEMBER_CANDIDATE, 2, 3), LLM_OK);
    while (strstr(log_text, "another number of voters") == NULL)
        poll_all();
}

/* Lets a member take a packet of another one, which has so many bytes of a name and of a message at its end. */
static void input(struct member *member, struct lli_wire_join join, const char *name, uint32_t size)
{
    uint8_t bytes[1024];
    struct lli_rx_packet packet = {.bytes = bytes};
    size_t end;

    join.session = member->failover->stream;
    end = lli_wire_put_join(bytes, &join);
    if (join.kind == LLI_WIRE_JOIN_TAIL) {
        memcpy(bytes + end, name, strlen(name));
        memset(bytes + end + strlen(name), 'x', size);
        end += strlen(name) + size;
        lli_wire_put_size(bytes, end);
    }
    packet.size = end;
    assert_int_equal(lli_wire_get_header(bytes, end, &packet.header, &packet.body, &packet.body_size),
                     LLI_WIRE_OK);
    assert_true(lli_failover_request(member->failover, &packet, lli_clock_ns()));
}

enum { OTHER = 77, ANOTHER = 78, PART = 200 };

/* Lets a member survey others, of which one has messages. */
static void survey(struct member *member, uint64_t identity)
{
    struct lli_election *election = &member->failover->election;

    election->state = LLI_ELECTION_SURVEYING;
    election->position.followed = 1;
    election->peers_count = 1;
    election->peers[0] =
        (struct lli_election_peer){.identity = identity, .position = {.followed = 1, .next = 5}};
}

static struct lli_wire_join tail_part(uint64_t identity, uint32_t offset, uint32_t whole, uint32_t name_size)
{
    return (struct lli_wire_join){.kind = LLI_WIRE_JOIN_TAIL,
                                  .receiver = identity,
                                  .topics = whole,
                                  .value = offset,
                                  .wanted = (uint64_t)name_size << 32 | PART};
}

static void parts_of_a_message_are_of_one_member_and_fit(void **state)
{
    struct member *member = &members[1];
    struct llm_failover *failover = member->failover;

    (void)state;
    survey(member, OTHER);
    input(member, tail_part(OTHER, 0, 3 * PART, 4), "even", PART);
    assert_int_equal(failover->assembled, PART);
    /* The message is said to be shorter than what came. */
    input(member, tail_part(OTHER, PART, PART - 1, 4), "even", PART);
    assert_int_equal(failover->assembled, PART);
    assert_int_equal(failover->tail.next, 0);
    /* Another member is asked: it begins the message. */
    survey(member, ANOTHER);
    input(member, tail_part(ANOTHER, PART, 3 * PART, 4), "even", PART);
    assert_int_equal(failover->assembled, 0);
    input(member, tail_part(ANOTHER, 0, 3 * PART, 4), "even", PART);
    assert_int_equal(failover->assembled, PART);
    /* The message came by another way: the next one begins. */
    lli_tail_reset(&failover->tail, 1);
    (void)lli_failover_fetch(failover, LLI_NEVER - 1);
    assert_int_equal(failover->assembled, 0);
    failover->election.state = LLI_ELECTION_BACKUP;
}

static void a_part_with_a_wrong_name_is_dropped(void **state)
{
    struct member *member = &members[1];

    (void)state;
    survey(member, OTHER);
    input(member, tail_part(OTHER, 0, 3 * PART, 0), "", PART);
    input(member, tail_part(OTHER, 0, 3 * PART, LLI_WIRE_NAME_MAX + 1), "even", PART);
    /* Zeros of the token are in the place of the name. */
    input(member, tail_part(OTHER, 0, 3 * PART, 4), "", PART);
    assert_int_equal(member->failover->assembled, 0);
    input(member, tail_part(OTHER, 0, 3 * PART, 4), "even", PART);
    assert_int_equal(member->failover->assembled, PART);
    member->failover->election.state = LLI_ELECTION_BACKUP;
}

static void the_tail_begins_after_a_message_whose_topic_is_not_known(void **state)
{
    struct llm_failover *failover = members[RECEIVER].failover;
    const struct llm_message message = {.data = "even", .size = 4, .topic = ""};

    (void)state;
    failover->handlers.message = NULL;
    lli_failover_take(failover, 0, lli_failover_name(failover, "even"), &message);
    assert_int_equal(failover->election.position.first, 0);
    lli_failover_take(failover, 1, lli_failover_name(failover, ""), &message);
    assert_int_equal(failover->election.position.first, 2);
    lli_failover_take(failover, 2, lli_failover_name(failover, "even"), &message);
    assert_int_equal(failover->election.position.first, 2);
    assert_int_equal(failover->tail.next, 3);
}

static void a_primary_that_cannot_repeat_a_message_is_fenced(void **state)
{
    struct member *first = primary();
    struct llm_failover *failover = first->failover;
    const uint32_t topic = lli_failover_name(failover, "long");

    (void)state;
    /* A name that no topic can have. */
    failover->topics[topic][0] = '\0';
    lli_tail_add(&failover->tail, topic, "late", 4);
    lli_election_has(&failover->election, 0, 1, 0);
    failover->due = 1;
    while (first->role != LLM_ROLE_FENCED)
        poll_all();
    assert_non_null(strstr(log_text, "cannot be sent again"));
    assert_ptr_not_equal(primary(), first);
}

/* Returns the number of messages that a candidate gets when a member takes this request. */
static uint64_t fetched(struct member *candidate, struct member *from, const struct lli_wire_join *fetch)
{
    struct llm_failover *failover = candidate->failover;

    lli_tail_reset(&failover->tail, 0);
    survey(candidate, from->failover->election.config.identity);
    input(from, *fetch, NULL, 0);
    assert_true(llm_poll(candidate->context) >= 0);
    return failover->tail.next;
}

static void the_tail_is_sent_only_to_a_candidate_that_surveys(void **state)
{
    struct member *candidate = &members[1], *member = &members[RECEIVER];
    const struct llm_message message = {.data = "even", .size = 4, .topic = "even"};
    struct lli_wire_join join = {.kind = LLI_WIRE_JOIN_TAIL_FETCH,
                                 .receiver = candidate->failover->election.config.identity,
                                 .address = candidate->failover->receiver->endpoint->address};
    struct lli_wire_join asks = join;

    (void)state;
    asks.kind = LLI_WIRE_JOIN_SURVEY;
    asks.from = 1;
    asks.reason = 3;
    asks.topics = 3 * 1000 + 1;
    asks.value = 1;
    candidate->failover->handlers.message = member->failover->handlers.message = NULL;
    lli_failover_take(member->failover, 0, lli_failover_name(member->failover, "even"), &message);
    assert_int_equal(fetched(candidate, member, &join), 0);
    /* It surveys, from another address. */
    asks.address.bytes[0] ^= 1;
    input(member, asks, NULL, 0);
    assert_int_equal(fetched(candidate, member, &join), 0);
    asks.address = join.address;
    input(member, asks, NULL, 0);
    assert_int_equal(fetched(candidate, member, &join), 1);
    /* Another packet of it came from another address. */
    asks.kind = LLI_WIRE_JOIN_CANVASS;
    asks.address.bytes[0] ^= 1;
    input(member, asks, NULL, 0);
    join.address = asks.address;
    assert_int_equal(fetched(candidate, member, &join), 0);
    join.address.bytes[0] ^= 1;
    asks.kind = LLI_WIRE_JOIN_SURVEY;
    asks.address = join.address;
    input(member, asks, NULL, 0);
    assert_int_equal(fetched(candidate, member, &join), 1);
    /* The term began. */
    member->failover->election.position.followed = asks.topics;
    assert_int_equal(fetched(candidate, member, &join), 0);
}

static void another_number_of_voters_is_reported(void **state)
{
    struct member *odd = &members[2];

    (void)state;
    assert_int_equal(llm_failover_close(&odd->failover), LLM_OK);
    assert_int_equal(member_open(odd, LLM_MEMBER_CANDIDATE, 2, 5), LLM_OK);
    while (strstr(log_text, "another number of voters") == NULL)
        poll_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_backup_goes_on_with_the_next_number, up, down),
        cmocka_unit_test_setup_teardown(a_member_that_hears_another_session_of_its_term_is_fenced, up, down),
        cmocka_unit_test_setup_teardown(a_primary_that_was_stopped_can_send_no_more, up, down),
        cmocka_unit_test_setup_teardown(a_primary_that_finds_its_lease_expired_is_fenced_with_the_next_poll,
                                        up, down),
        cmocka_unit_test_setup_teardown(what_was_not_sent_when_the_lease_expired_is_never_sent, up, down),
        cmocka_unit_test_setup_teardown(
            a_primary_without_the_lease_sends_nothing_in_a_poll_nor_when_it_is_closed, up, down),
        cmocka_unit_test_setup_teardown(what_a_receiver_was_given_is_fetched_from_it, up, down),
        cmocka_unit_test_setup_teardown(a_member_that_did_not_run_gets_what_it_lacks_from_the_new_primary, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_session_of_no_stream_changes_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_member_that_joins_late_begins_in_the_middle, up, down),
        cmocka_unit_test_setup_teardown(values_out_of_their_range_are_refused, up, down),
        cmocka_unit_test_setup_teardown(parts_of_a_message_are_of_one_member_and_fit, up, down),
        cmocka_unit_test_setup_teardown(a_part_with_a_wrong_name_is_dropped, up, down),
        cmocka_unit_test_setup_teardown(the_tail_begins_after_a_message_whose_topic_is_not_known, up, down),
        cmocka_unit_test_setup_teardown(a_primary_that_cannot_repeat_a_message_is_fenced, up, down),
        cmocka_unit_test_setup_teardown(the_tail_is_sent_only_to_a_candidate_that_surveys, up, down),
        cmocka_unit_test_setup_teardown(another_number_of_voters_is_reported, up, down),
        cmocka_unit_test_setup_teardown(a_member_that_commits_otherwise_is_ignored, up, down),
        cmocka_unit_test_teardown(a_message_that_waits_fits_the_tail, down),
        cmocka_unit_test_setup_teardown(a_member_that_begins_later_has_the_state_of_another, up_snapshots,
                                        down),
        cmocka_unit_test_setup_teardown(a_member_that_begins_later_has_the_state_of_another,
                                        up_snapshots_majority, down),
        cmocka_unit_test_setup_teardown(a_primary_sends_its_state_if_there_is_nobody_else, up_snapshots,
                                        down),
        cmocka_unit_test_setup_teardown(a_snapshot_that_fails_is_requested_again, up_snapshots, down),
        {"a_snapshot_fits_short_messages", a_member_that_begins_later_has_the_state_of_another,
         up_snapshots_short, down, NULL},
        cmocka_unit_test_setup_teardown(a_snapshot_that_cannot_be_sent_is_reported, up_snapshots_too_short,
                                        down),
        cmocka_unit_test_setup_teardown(a_head_of_another_size_ends_a_snapshot, up_snapshots, down),
        cmocka_unit_test_setup_teardown(connections_of_the_application_stay, up_snapshots, down),
        cmocka_unit_test_setup_teardown(a_member_that_begins_later_gets_all_messages_of_a_store, up_store,
                                        down_store),
        {"a_member_gets_all_messages_of_a_store_by_majority",
         a_member_that_begins_later_gets_all_messages_of_a_store, up_store_majority, down_store, NULL},
        cmocka_unit_test_setup_teardown(the_messages_of_several_primaries_are_one_sequence, up_store,
                                        down_store),
        cmocka_unit_test_setup_teardown(a_recording_with_keys_is_read_to_its_end, up_store_keys, down_store),
        cmocka_unit_test_setup_teardown(recordings_of_an_earlier_stream_are_left_out, up_store, down_store),
        cmocka_unit_test_setup_teardown(what_a_store_lacks_is_reported, up_store, down_store),
        cmocka_unit_test_setup_teardown(a_member_whose_stream_begins_anew_while_it_reads_is_fenced, up_store,
                                        down_store),
        cmocka_unit_test_setup_teardown(a_stream_that_begins_is_not_read_from_a_store, up_store, down_store),
        cmocka_unit_test_setup_teardown(a_directory_that_is_not_there_is_refused, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_waits_for_the_state_as_long_as_it_takes, up_snapshots,
                                        down),
        cmocka_unit_test_setup_teardown(members_without_the_state_begin_anew_if_nobody_has_it, up_snapshots,
                                        down),
        cmocka_unit_test_setup_teardown(a_snapshot_from_before_the_messages_that_wait_is_not_restored,
                                        up_snapshots, down),
        cmocka_unit_test_setup_teardown(a_message_waits_until_a_majority_has_it, up_majority, down),
        cmocka_unit_test_setup_teardown(what_waited_is_delivered_by_the_next_primary, up_majority, down),
        cmocka_unit_test_setup_teardown(a_voter_that_restarted_counts_when_it_has_caught_up, up_majority,
                                        down),
        cmocka_unit_test_setup_teardown(messages_that_wait_and_find_no_room_are_reported, up_majority_small,
                                        down),
        cmocka_unit_test_setup_teardown(a_backup_goes_on_with_the_next_number, up_majority, down),
        cmocka_unit_test_setup_teardown(a_primary_that_was_stopped_can_send_no_more, up_majority, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
