/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <fnmatch.h>
#include <llm/llm.h>

#include "core/ack/ack.h"

enum { MEMBERS = 12, PLACES = 64 };

static struct lli_ack ack;
static struct lli_members members;
static struct lli_ack_topic topic;
static struct lli_ack_message ring[PLACES], ring_more[PLACES];
static struct lli_arena arena;
static uint64_t sent; /* messages sent in the session */

static void require(struct lli_ack_rule *rule, const char *name)
{
    assert_int_equal(lli_ack_name_parse(name, strlen(name), &rule->name[rule->names++]), LLI_ACK_NAME_OK);
}

static struct lli_ack_rule rule_of(uint32_t receivers, const char *name)
{
    struct lli_ack_rule rule = {
        .receivers = receivers, .messages_max = PLACES, .bytes_max = 1000, .patience = 100 * MS};

    if (name != NULL)
        require(&rule, name);
    return rule;
}

static void ack_by(uint32_t receivers, const char *name)
{
    const struct lli_ack_rule rule = rule_of(receivers, name);

    assert_true(lli_ack_set(&ack, &members, &topic, &rule, ring, PLACES));
}

static int up(void **state)
{
    (void)state;
    arena = (struct lli_arena){.memory = NULL};
    lli_members_init(&members, MEMBERS, &arena);
    lli_ack_init(&ack, MEMBERS, &arena);
    arena_fill(&arena);
    lli_members_init(&members, MEMBERS, &arena);
    lli_ack_init(&ack, MEMBERS, &arena);
    lli_ack_topic_init(&topic, 7, "orders");
    sent = 0;
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(arena.memory);
    return 0;
}

/* Sends the next message of the session, in a packet with its own number. */
static void send_message(uint64_t size)
{
    lli_ack_sent(&ack, &topic, sent, sent + 1000, size);
    sent++;
}

static bool report(uint64_t receiver, uint64_t from, uint64_t next, uint16_t accepts, const char *name)
{
    struct lli_wire_status status = {.receiver = receiver,
                                     .acknowledged_from = from,
                                     .acknowledged_next = next,
                                     .accepts = accepts,
                                     .name_size = (uint8_t)strlen(name)};

    memcpy(status.name, name, strlen(name));
    return lli_ack_report(&ack, &members, lli_members_add(&members, receiver), &status, sent);
}

static void expect_acknowledged(uint64_t first, uint64_t last)
{
    struct llm_event event;

    assert_true(ack.unreported);
    assert_true(lli_ack_event(&ack, &event));
    assert_int_equal(event.kind, LLM_EVENT_ACKNOWLEDGED);
    assert_int_equal(event.topic_id, 7);
    assert_string_equal(event.topic, "orders");
    assert_int_equal(event.first, first);
    assert_int_equal(event.last, last);
}

static void expect_waits(enum llm_reason reason, const char *receiver)
{
    struct llm_event event;

    assert_true(lli_ack_event(&ack, &event));
    assert_int_equal(event.kind, LLM_EVENT_UNACKNOWLEDGED);
    assert_int_equal(event.reason, reason);
    assert_int_equal(event.receiver != NULL, receiver != NULL);
    if (receiver != NULL)
        assert_string_equal(event.receiver, receiver);
}

static void expect_nothing(void)
{
    struct llm_event event;

    assert_false(lli_ack_event(&ack, &event));
    assert_false(ack.unreported);
}

static void a_message_is_acknowledged_when_enough_receivers_report_it(void **state)
{
    (void)state;
    ack_by(2, NULL);
    for (int i = 0; i < 5; i++)
        send_message(10);
    assert_int_equal(ack.unacknowledged, 1000);
    assert_true(report(1, 0, 4, 1, ""));
    expect_nothing();
    assert_true(report(2, 0, 3, 1, ""));
    expect_acknowledged(0, 2);
    expect_nothing();
    assert_int_equal(ack.waiting, 2);
    assert_int_equal(ack.unacknowledged, 1003);
    assert_true(report(3, 0, 5, 1, ""));
    expect_acknowledged(3, 3);
    assert_true(report(1, 0, 5, 1, ""));
    expect_acknowledged(4, 4);
    assert_int_equal(ack.unacknowledged, UINT64_MAX);
}

static lli_seq owes(uint64_t receiver)
{
    return lli_ack_owes(&ack, &members, lli_members_get(&members, receiver));
}

static void a_required_receiver_has_an_oldest_unacknowledged_message(void **state)
{
    (void)state;
    ack_by(2, "book");
    for (int i = 0; i < 5; i++)
        send_message(10);
    (void)report(1, 0, 0, 1, "book");
    (void)report(2, 0, 0, 1, "");
    (void)report(3, 0, 2, 0, "");
    /*
     * A receiver required by name owes at once; another one once it has acknowledged a message; one that
     * refused the topic never.
     */
    assert_int_equal(owes(1), 1000);
    assert_int_equal(owes(2), 0);
    assert_int_equal(owes(3), 0);
    (void)report(2, 0, 3, 1, "");
    assert_int_equal(owes(2), 1003);
    (void)report(1, 0, 1, 1, "book");
    assert_int_equal(owes(1), 1001);
    expect_acknowledged(0, 0);
    /* A lost message is before its run, and a message acknowledged by others waits for no receiver. */
    (void)report(2, 4, 4, 1, "");
    assert_int_equal(owes(2), 1004);
    (void)report(4, 0, 5, 1, "");
    (void)report(1, 0, 5, 1, "book");
    assert_int_equal(owes(2), 0);
    assert_int_equal(owes(1), 0);
}

static void a_suspended_receiver_still_has_unacknowledged_messages(void **state)
{
    (void)state;
    ack_by(1, NULL);
    send_message(10);
    (void)report(1, 0, 1, 1, "");
    send_message(10);
    members.table[lli_members_get(&members, 1)].standing = LLI_STANDING_SUSPENDED;
    assert_int_equal(owes(1), 1001);
    /* Without an acknowledgement rule, nothing is owed. */
    assert_true(lli_ack_set(&ack, &members, &topic, &(struct lli_ack_rule){.messages_max = 1}, NULL, 1));
    assert_int_equal(owes(1), 0);
}

static void a_receiver_counts_once_and_not_after_it_is_forgotten(void **state)
{
    (void)state;
    ack_by(2, NULL);
    send_message(10);
    assert_true(report(1, 0, 1, 1, ""));
    assert_true(report(1, 0, 1, 1, ""));
    expect_nothing();
    lli_members_del(&members, 1);
    assert_true(report(2, 0, 1, 1, ""));
    expect_nothing();
    assert_true(report(3, 0, 1, 1, ""));
    expect_acknowledged(0, 0);
}

static void a_named_receiver_is_required_beside_the_count(void **state)
{
    (void)state;
    ack_by(1, "book");
    send_message(10);
    assert_true(report(1, 0, 1, 1, "book-2"));
    expect_nothing();
    assert_true(report(2, 0, 1, 1, "book"));
    expect_acknowledged(0, 0);
    /* By name only. */
    ack_by(0, "book");
    send_message(10);
    assert_true(report(1, 0, 2, 1, "book-2"));
    expect_nothing();
    assert_true(report(2, 0, 2, 1, "book"));
    expect_acknowledged(1, 1);
}

static void a_pattern_waits_for_receivers_of_different_names(void **state)
{
    (void)state;
    ack_by(0, "store-*:2");
    for (int i = 0; i < 4; i++)
        send_message(10);
    assert_true(report(1, 0, 3, 1, "store-a"));
    assert_true(report(2, 0, 4, 1, "store-a"));
    assert_true(report(3, 0, 4, 1, "archive"));
    assert_true(report(4, 0, 4, 1, ""));
    expect_nothing();
    assert_true(report(5, 0, 2, 1, "store-b"));
    expect_acknowledged(0, 1);
    /* A third one counts in the place of the second, of which no report comes. */
    assert_true(report(6, 2, 3, 1, "store-c"));
    expect_acknowledged(2, 2);
    /* The other receiver of the first name has left, and what it acknowledged does not count. */
    lli_members_del(&members, 2);
    assert_true(report(6, 2, 4, 1, "store-c"));
    expect_nothing();
    assert_true(report(5, 0, 4, 1, "store-b"));
    expect_acknowledged(3, 3);
}

static void a_receiver_counts_for_every_name_and_pattern_that_it_matches(void **state)
{
    struct lli_ack_rule rule = rule_of(2, "store-1");

    (void)state;
    require(&rule, "store-*:2");
    require(&rule, "*-2");
    assert_true(lli_ack_set(&ack, &members, &topic, &rule, ring, PLACES));
    send_message(10);
    assert_true(report(1, 0, 1, 1, "store-1"));
    expect_nothing();
    assert_true(report(2, 0, 1, 1, "store-2"));
    expect_acknowledged(0, 0);
}

static void expect_waits_for(enum llm_reason reason, const char *receiver, uint32_t receivers,
                             uint32_t wanted)
{
    struct llm_event event;

    assert_true(lli_ack_event(&ack, &event));
    assert_int_equal(event.reason, reason);
    assert_string_equal(event.receiver, receiver);
    assert_int_equal(event.receivers, receivers);
    assert_int_equal(event.receivers_wanted, wanted);
}

static void waits_for_a_pattern_name_it_and_count_its_receivers(void **state)
{
    (void)state;
    ack_by(0, "store-*:2");
    send_message(10);
    lli_ack_look(&ack, &members, 0);
    lli_ack_look(&ack, &members, 100 * MS);
    expect_waits_for(LLM_REASON_RECEIVERS_FEW, "store-*", 0, 2);
    /* Of two with this name, and a suspended one, one counts; the second name joined after the message. */
    assert_true(report(1, 0, 0, 1, "store-a"));
    assert_true(report(2, 0, 0, 1, "store-a"));
    assert_true(report(3, 1, 1, 1, "store-b"));
    members.table[lli_members_get(&members, 3)].standing = LLI_STANDING_SUSPENDED;
    lli_ack_look(&ack, &members, 200 * MS);
    expect_nothing();
    assert_true(report(4, 1, 1, 1, "store-c"));
    lli_ack_look(&ack, &members, 300 * MS);
    expect_waits_for(LLM_REASON_GIVEN_UP, "store-*", 1, 2);
    assert_true(report(5, 0, 0, 1, "store-d"));
    lli_ack_look(&ack, &members, 400 * MS);
    expect_waits_for(LLM_REASON_PENDING, "store-*", 0, 0);
    assert_int_equal(owes(5), 1000);
    assert_int_equal(owes(4), 0);
    assert_true(lli_ack_close(&ack));
    expect_waits(LLM_REASON_CLOSED, NULL);
}

static void lost_or_refused_messages_are_not_acknowledged(void **state)
{
    (void)state;
    ack_by(1, NULL);
    for (int i = 0; i < 4; i++)
        send_message(10);
    /* One refuses the topic; the other's run begins after the first message. */
    assert_true(report(1, 0, 4, 0, ""));
    assert_true(report(2, 1, 4, 1, ""));
    expect_nothing();
    /* The third has only the first message: the second has the others. */
    assert_true(report(3, 0, 1, 1, ""));
    expect_acknowledged(0, 3);
}

static void overtaken_and_impossible_reports_change_nothing(void **state)
{
    (void)state;
    ack_by(1, NULL);
    send_message(10);
    assert_false(report(1, 0, 2, 1, ""));
    expect_nothing();
    assert_true(report(1, 0, 1, 1, ""));
    expect_acknowledged(0, 0);
    send_message(10);
    assert_true(report(1, 0, 2, 1, ""));
    assert_true(report(1, 0, 0, 0, ""));
    send_message(10);
    assert_true(report(1, 0, 3, 1, ""));
    expect_acknowledged(1, 2);
}

static void unacknowledged_data_is_bounded_by_messages_and_bytes(void **state)
{
    struct lli_ack_rule rule = rule_of(1, NULL);

    (void)state;
    rule.messages_max = 3;
    assert_true(lli_ack_set(&ack, &members, &topic, &rule, ring, 4));
    send_message(500);
    assert_false(lli_ack_topic_allows(&topic, 501));
    assert_true(lli_ack_topic_allows(&topic, 500));
    send_message(0);
    send_message(0);
    assert_false(lli_ack_topic_allows(&topic, 0));
    assert_true(report(1, 0, 1, 1, ""));
    assert_true(lli_ack_topic_allows(&topic, 1000));
    assert_false(lli_ack_topic_allows(&topic, 1001));
}

static void the_cause_of_a_wait_is_reported_once_per_change(void **state)
{
    (void)state;
    ack_by(2, "book");
    send_message(10);
    send_message(10);
    lli_ack_look(&ack, &members, 0);
    lli_ack_look(&ack, &members, 99 * MS);
    expect_nothing();
    lli_ack_look(&ack, &members, 100 * MS);
    expect_waits(LLM_REASON_RECEIVER_ABSENT, "book");
    lli_ack_look(&ack, &members, 200 * MS);
    expect_nothing();
    /* The named receiver lost it; the second has not acknowledged; the second has, but one more is needed. */
    assert_true(report(1, 1, 2, 1, "book"));
    lli_ack_look(&ack, &members, 300 * MS);
    expect_waits(LLM_REASON_GIVEN_UP, "book");
    assert_true(report(2, 0, 0, 1, "book"));
    lli_ack_look(&ack, &members, 400 * MS);
    expect_waits(LLM_REASON_PENDING, "book");
    assert_true(report(2, 0, 1, 1, "book"));
    lli_ack_look(&ack, &members, 500 * MS);
    expect_waits(LLM_REASON_GIVEN_UP, NULL);
    lli_members_del(&members, 1);
    lli_ack_look(&ack, &members, 600 * MS);
    expect_waits(LLM_REASON_RECEIVERS_FEW, NULL);
    assert_true(report(3, 0, 0, 1, ""));
    lli_ack_look(&ack, &members, 700 * MS);
    expect_waits(LLM_REASON_PENDING, NULL);
    /* Progress restarts the patience. */
    assert_true(report(3, 0, 1, 1, ""));
    expect_acknowledged(0, 0);
    lli_ack_look(&ack, &members, 800 * MS);
    expect_nothing();
    lli_ack_look(&ack, &members, 900 * MS);
    expect_waits(LLM_REASON_PENDING, "book");
}

static void a_suspended_receiver_counts_neither_by_number_nor_by_name(void **state)
{
    struct lli_member *book;

    (void)state;
    ack_by(1, "book");
    send_message(10);
    book = &members.table[lli_members_add(&members, 1)];
    book->standing = LLI_STANDING_SUSPENDED;
    assert_true(report(1, 0, 1, 1, "book"));
    expect_nothing();
    lli_ack_look(&ack, &members, 0);
    lli_ack_look(&ack, &members, 100 * MS);
    expect_waits(LLM_REASON_RECEIVER_ABSENT, "book");
    book->standing = LLI_STANDING_EXPELLED;
    ack_by(1, NULL);
    expect_nothing();
    lli_ack_look(&ack, &members, 200 * MS);
    lli_ack_look(&ack, &members, 300 * MS);
    expect_waits(LLM_REASON_RECEIVERS_FEW, NULL);
    /* Its run counts again with its first report after the suspension. */
    book->standing = LLI_STANDING_FINE;
    assert_true(report(1, 0, 1, 1, "book"));
    expect_acknowledged(0, 0);
}

static void a_new_rule_applies_to_waiting_messages(void **state)
{
    struct lli_ack_rule rule = rule_of(1, NULL);

    (void)state;
    ack_by(1, "book");
    send_message(10);
    send_message(10);
    assert_true(report(1, 0, 1, 1, ""));
    expect_nothing();
    assert_true(lli_ack_set(&ack, &members, &topic, &rule, ring_more, PLACES));
    expect_acknowledged(0, 0);
    assert_int_equal(ack.waiting, 1);
    /* No receiver any more. */
    rule.receivers = 0;
    assert_true(lli_ack_set(&ack, &members, &topic, &rule, ring, PLACES));
    assert_int_equal(ack.waiting, 0);
    assert_int_equal(ack.unacknowledged, UINT64_MAX);
    expect_nothing();
}

static void assured_topics_beyond_the_limit_are_refused(void **state)
{
    static struct lli_ack_topic more[LLI_WIRE_ASSURED_MAX];
    static struct lli_ack_message places[LLI_WIRE_ASSURED_MAX];
    struct lli_ack_rule rule = rule_of(1, NULL);

    (void)state;
    rule.messages_max = 1;
    for (uint32_t i = 0; i < LLI_WIRE_ASSURED_MAX; i++) {
        lli_ack_topic_init(&more[i], i, "x");
        assert_true(lli_ack_set(&ack, &members, &more[i], &rule, &places[i], 1));
    }
    assert_false(lli_ack_set(&ack, &members, &topic, &rule, ring, 1));
    assert_true(lli_ack_set(&ack, &members, &more[3], &rule, &places[3], 1));
}

/* ---------------------------------------------------------------------------------------- against a model */

/* Names of receivers; some have none, and some share one. */
static const char *const model_names[] = {"", "book", "store-1", "store-2", "store-3", "s-1", "ledger"};
static const char *const model_required[] = {"book",   "store-2", "store-*", "store-*:2", "*:2",
                                             "s*-1:2", "*er",     "*:4",     "b*k",       "nobody-*"};

enum {
    MODEL_NAMES = sizeof model_names / sizeof model_names[0],
    MODEL_REQUIRED = sizeof model_required / sizeof model_required[0],
    MODEL_RULE_MAX = 3,
};

struct model {
    uint64_t id, from, next;
    uint32_t name; /* index in model_names */
    bool accepts, known, suspended;
};

struct model_rule {
    uint32_t receivers, names;
    uint32_t name[MODEL_RULE_MAX]; /* indices in model_required */
};

static bool model_holds(const struct model *m, uint64_t number)
{
    return m->known && !m->suspended && m->accepts && m->from <= number && number < m->next;
}

/* Splits what is required at its colon, and counts the names that match and hold the message. */
static bool model_has_names(const struct model *models, uint64_t number, const char *required)
{
    const char *colon = strchr(required, ':');
    const size_t size = colon == NULL ? strlen(required) : (size_t)(colon - required);
    const int wanted = colon == NULL ? 1 : atoi(colon + 1);
    char pattern[32] = "";
    int found = 0;

    memcpy(pattern, required, size);
    for (uint32_t name = 1; name < MODEL_NAMES; name++) {
        bool holds = false;

        for (int i = 0; i < MEMBERS; i++)
            holds |= models[i].name == name && model_holds(&models[i], number);
        found += holds && fnmatch(pattern, model_names[name], 0) == 0;
    }
    return found >= wanted;
}

/* Returns the end of the acknowledged messages, by checking them one by one. */
static uint64_t model_acknowledged(const struct model *models, uint64_t head, const struct model_rule *rule)
{
    for (; head < sent; head++) {
        uint32_t holders = 0;

        for (int i = 0; i < MEMBERS; i++)
            holders += model_holds(&models[i], head);
        for (uint32_t i = 0; i < rule->names; i++)
            if (!model_has_names(models, head, model_required[rule->name[i]]))
                return head;
        if (holders < rule->receivers)
            break;
    }
    return head;
}

/* Draws a rule, and applies it. */
static struct model_rule model_require(uint64_t *random)
{
    struct model_rule rule = {.receivers = below(random, 5), .names = below(random, MODEL_RULE_MAX + 1)};
    struct lli_ack_rule applied;

    if (rule.receivers + rule.names == 0)
        rule.receivers = 1;
    applied = rule_of(rule.receivers, NULL);
    for (uint32_t i = 0; i < rule.names; i++) {
        rule.name[i] = below(random, MODEL_REQUIRED);
        require(&applied, model_required[rule.name[i]]);
    }
    assert_true(lli_ack_set(&ack, &members, &topic, &applied, topic.ring == ring ? ring_more : ring, PLACES));
    return rule;
}

/* A forgotten member returns under another identity. False: nothing was evaluated. */
static bool model_step(uint64_t *random, struct model *models, uint64_t head)
{
    static uint64_t id;
    const uint32_t i = below(random, MEMBERS);
    struct model *m = &models[i];

    if (m->known && chance(random, 5)) {
        lli_members_del(&members, m->id);
        *m = (struct model){.known = false};
        return false;
    }
    if (m->known && chance(random, 5)) {
        m->suspended = !m->suspended;
        members.table[lli_members_get(&members, m->id)].standing =
            m->suspended ? LLI_STANDING_SUSPENDED + below(random, 2) : LLI_STANDING_FINE;
        return false;
    }
    if (!m->known)
        *m = (struct model){.id = ++id,
                            .known = true,
                            .accepts = chance(random, 80),
                            .name = below(random, MODEL_NAMES),
                            .from = head,
                            .next = head};
    if (chance(random, 3) && m->next < sent)
        m->from = m->next = m->next + 1 + below(random, (uint32_t)(sent - m->next));
    else
        m->next += below(random, (uint32_t)(sent - m->next) + 1);
    assert_true(report(m->id, m->from, m->next, m->accepts, model_names[m->name]));
    return true;
}

static void random_reports_agree_with_a_simple_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct model models[MEMBERS] = {{0}};
        uint64_t random = seed, head = 0;
        struct model_rule rule;

        up(NULL);
        rule = model_require(&random);
        for (int step = 0; step < 400; step++) {
            const bool changes = chance(&random, 2);

            while (chance(&random, 70) && lli_ack_topic_allows(&topic, 1))
                send_message(1);
            /* Only reports and rules acknowledge messages; forgetting or readmitting a member does not. */
            if (changes) {
                rule = model_require(&random);
                head = model_acknowledged(models, head, &rule);
            }
            if (model_step(&random, models, head))
                head = model_acknowledged(models, head, &rule);
            if (sent - ack.waiting != head)
                fail_msg("seed %llu step %d: %llu are acknowledged, not %llu", (unsigned long long)seed, step,
                         (unsigned long long)(sent - ack.waiting), (unsigned long long)head);
        }
        down(NULL);
    }
}

/* --------------------------------------------------------------------------------------------- a session */

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];

static void expect_heartbeat(struct lli_tx *tx, lli_ns now, struct lli_wire_heartbeat *heartbeat)
{
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    assert_true(lli_tx_control(tx, now, buffer, sizeof buffer, &packet));
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_true(lli_wire_get_heartbeat(body, size, &header, heartbeat));
}

static void acknowledge(struct lli_tx *tx, uint64_t receiver, uint64_t next, uint8_t flags, lli_ns now)
{
    const struct lli_wire_status status = {.session = SESSION,
                                           .receiver = receiver,
                                           .next = START,
                                           .highest = START,
                                           .accepts = 1,
                                           .flags = LLI_WIRE_STATUS_ACKNOWLEDGES | flags,
                                           .acknowledged_next = next,
                                           .address = {1, {'a'}}};

    tx_take(tx, buffer, lli_wire_put_status(buffer, &status), now);
}

static void unacknowledged_packets_stay_in_the_history_and_in_heartbeats(void **state)
{
    const struct lli_tx_config config = tx_config();
    struct lli_ack_rule rule = rule_of(1, NULL);
    static const char text[200] = "x";
    const struct lli_pack_topic plain = {.id = 0};
    const struct iovec piece = {(void *)(uintptr_t)text, sizeof text};
    struct lli_wire_heartbeat heartbeat;
    struct transmitter t;
    int more = 0;

    (void)state;
    transmitter_make(&t, &config, 10 * MS);
    assert_true(lli_tx_assure(&t.tx, &topic, &rule, ring, PLACES));
    send_one(&t.tx, "plain", 10 * MS);
    pack_one(&t.tx, "assured");
    lli_tx_assured(&t.tx, &topic, START + 1, 7);
    lli_tx_sent(&t.tx, 1, 10 * MS);
    lli_tx_reaped(&t.tx, true);
    expect_heartbeat(&t.tx, 11 * MS, &heartbeat);
    assert_int_equal(heartbeat.flags & (LLI_WIRE_HEARTBEAT_ASSURED | LLI_WIRE_HEARTBEAT_HELD), 12);
    assert_int_equal(heartbeat.unacknowledged, START + 1);
    assert_int_equal(heartbeat.unacknowledged_messages, 1);
    assert_int_equal(heartbeat.report_packets, PLACES / 8);
    assert_int_equal(heartbeat.assured, 1);
    assert_int_equal(heartbeat.assured_topics[0], 7);
    /* The history fills up after the unacknowledged message. */
    while (more < 10 * HISTORY &&
           lli_pack_message(&t.tx.pack, &plain, &piece, sizeof text, lli_tx_busy(&t.tx))) {
        lli_pack_flush(&t.tx.pack);
        lli_tx_sent(&t.tx, 1, 12 * MS);
        lli_tx_reaped(&t.tx, true);
        more++;
    }
    assert_in_range(more, HISTORY / 2, HISTORY);
    assert_true(t.tx.history.trail <= START + 1);
    /* From no receiver; for an unsent message; in a receiver's last report. */
    acknowledge(&t.tx, 0, 2, 0, 13 * MS);
    acknowledge(&t.tx, 9, 1000, 0, 13 * MS);
    assert_int_equal(t.tx.counters.acknowledgements_refused, 2);
    assert_int_equal(t.tx.ack.waiting, 1);
    acknowledge(&t.tx, 9, 2, LLI_WIRE_STATUS_LEAVING, 13 * MS);
    assert_int_equal(t.tx.ack.waiting, 0);
    assert_true(lli_tx_deadline(&t.tx) <= 13 * MS);
    lli_tx_reaped(&t.tx, true);
    assert_true(lli_pack_message(&t.tx.pack, &plain, &piece, sizeof text, lli_tx_busy(&t.tx)));
    free(t.memory);
}

static void send_assured(struct lli_tx *tx, lli_ns now)
{
    pack_one(tx, "assured");
    lli_tx_assured(tx, &topic, tx->history.next - 1, 7);
    lli_tx_sent(tx, 1, now);
}

static void data_postpones_a_heartbeat_only_if_the_one_before_has_asked_for_acknowledgements(void **state)
{
    enum { STEP = 20 * US };
    const struct lli_tx_config config = tx_config();
    const lli_ns first = config.heartbeat_min;
    struct lli_ack_rule rule = rule_of(1, NULL);
    struct lli_wire_heartbeat heartbeat;
    struct lli_packet packet;
    struct transmitter t;
    lli_ns now = 10 * MS;

    (void)state;
    transmitter_make(&t, &config, now);
    assert_true(lli_tx_assure(&t.tx, &topic, &rule, ring, PLACES));
    send_assured(&t.tx, now);
    acknowledge(&t.tx, 9, 1, 0, now);
    expect_heartbeat(&t.tx, now += MS, &heartbeat);
    assert_int_equal(heartbeat.flags & LLI_WIRE_HEARTBEAT_HELD, 0);
    for (lli_ns at = now; at < now + first; at += STEP) {
        assert_false(lli_tx_control(&t.tx, at, buffer, sizeof buffer, &packet));
        send_assured(&t.tx, at);
    }
    now += first;
    assert_false(lli_tx_control(&t.tx, now - 1, buffer, sizeof buffer, &packet));
    expect_heartbeat(&t.tx, now, &heartbeat);
    assert_int_equal(heartbeat.flags & LLI_WIRE_HEARTBEAT_HELD, LLI_WIRE_HEARTBEAT_HELD);
    for (int i = 0; i < PLACES - 4; i++) {
        send_assured(&t.tx, now);
        assert_false(lli_tx_control(&t.tx, now += STEP, buffer, sizeof buffer, &packet));
    }
    free(t.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_is_acknowledged_when_enough_receivers_report_it, up, down),
        cmocka_unit_test_setup_teardown(a_required_receiver_has_an_oldest_unacknowledged_message, up, down),
        cmocka_unit_test_setup_teardown(a_suspended_receiver_still_has_unacknowledged_messages, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_counts_once_and_not_after_it_is_forgotten, up, down),
        cmocka_unit_test_setup_teardown(a_named_receiver_is_required_beside_the_count, up, down),
        cmocka_unit_test_setup_teardown(a_pattern_waits_for_receivers_of_different_names, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_counts_for_every_name_and_pattern_that_it_matches, up,
                                        down),
        cmocka_unit_test_setup_teardown(waits_for_a_pattern_name_it_and_count_its_receivers, up, down),
        cmocka_unit_test_setup_teardown(lost_or_refused_messages_are_not_acknowledged, up, down),
        cmocka_unit_test_setup_teardown(overtaken_and_impossible_reports_change_nothing, up, down),
        cmocka_unit_test_setup_teardown(unacknowledged_data_is_bounded_by_messages_and_bytes, up, down),
        cmocka_unit_test_setup_teardown(the_cause_of_a_wait_is_reported_once_per_change, up, down),
        cmocka_unit_test_setup_teardown(a_suspended_receiver_counts_neither_by_number_nor_by_name, up, down),
        cmocka_unit_test_setup_teardown(a_new_rule_applies_to_waiting_messages, up, down),
        cmocka_unit_test_setup_teardown(assured_topics_beyond_the_limit_are_refused, up, down),
        cmocka_unit_test(random_reports_agree_with_a_simple_model),
        cmocka_unit_test_setup_teardown(unacknowledged_packets_stay_in_the_history_and_in_heartbeats, up,
                                        down),
        cmocka_unit_test_setup_teardown(
            data_postpones_a_heartbeat_only_if_the_one_before_has_asked_for_acknowledgements, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
