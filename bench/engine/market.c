/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that publishes messages on topics at a rate, subscribes to topics, or both, over any library with
 * topics (adapters/feed.h). Words of the command line:
 *   over=NAME             library of the process; by default the first of the program
 *   publish=CHANNEL subscribe=CHANNEL
 *   publisher=N           number of a publisher; consumer=N: number of a consumer, which reflects marked messages
 *   topics=N              topics of all publishers; own=FIRST-LAST: topics of this one
 *   watch=FIRST-LAST,...  topics of the watch list; by default all
 *   size= cache=          bytes of a message; messages in the last value cache of each topic
 *   idle=spin|yield|block
 *   fields=1              each field of a message is checked
 *   oneway=1              one-way latency of marked messages is measured
 *   round=N late=1        the process joins a round that has begun
 *   recovers=1            messages due before the process is live are not reflected
 *   later=1               the channels are opened at the request open
 * Requests:
 *   greet on=0|1          starts or stops greetings on each topic
 *   await from=N patience=
 *       Waits until N other processes sent a greeting, at most so many seconds. Answers with their number.
 *   begin round=N skip=N  begins a round; reflections by the consumer skip are not measured
 *   pace seconds=         makes the application sleep for this time at each message
 *   supply rate= duration= warmup= mark=
 *       Sends messages at a rate, on the topics in turn; every mark-th message is marked. Answers with the number of messages and the
 *       longest delay between due time and send.
 *   end sent=FIRST-COUNT-N,... patience=
 *       Waits for the N messages of each publisher on its topics, until none arrives for so many seconds. Answers with the counts.
 *   collect returned=N patience=
 *       Waits for N reflections, until none arrives for so many seconds. Answers with their latencies, and resets these.
 *   stats                 answers with processor time, memory and faults since the round began
 *   tail                  starts to record causes of late messages; then worst and stalls (tail.h)
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <llm/llm.h>

#include "../adapters/feed.h"
#include "control.h"
#include "machine.h"
#include "tail.h"

enum { MARKET_PUBLISHERS_MAX = 64, MARKET_BURST = 256, MARKET_FIELDS = 17, MARKET_GREETINGS = 64 };

#define MARKET_UNKNOWN UINT32_MAX       /* next number of a topic without a message */
#define MARKET_SILENCE_NS 1000000000ull /* default patience */
#define MARKET_GRACE_NS 1000000000ull   /* longest delay at the end of a supply */
#define MARKET_GREET_NS 10000000ull
#define MARKET_NAP_NS 1000000ull

enum market_kind { MARKET_GREETING, MARKET_PRIMARY, MARKET_REFLECTED };

struct market_head {
    uint32_t topic;    /* first, as libraries that filter by a prefix want it */
    uint32_t sequence; /* of its topic, publisher and round */
    uint64_t due_at;
    uint64_t sent_at; /* the call that sends it began */
    uint16_t publisher;
    uint16_t from; /* consumer of a reflection; sender of a greeting */
    uint8_t round;
    uint8_t kind;
    bool marked;   /* reflected, or measured one way */
    bool measured; /* after the warm-up */
};

struct market_message {
    struct market_head head;
    uint64_t fields[(FEED_SIZE_MAX - sizeof(struct market_head)) / sizeof(uint64_t)];
};

_Static_assert(sizeof(struct market_head) == 32, "32 bytes of a message are its head");

/* Counts of received messages in a round. */
struct market_counts {
    uint64_t received, lost, duplicated, changed, foreign, reflected, unreflected;
};

static struct market {
    const struct feed *feed;
    struct feed_link link;
    uint16_t publisher, consumer; /* consumer 0: no reflections */
    uint32_t field_count;         /* of a message of this size */
    bool checks_fields, takes_oneway, recovers;
    bool yields, greets;
    uint64_t greeted_at;
    bool heard[MARKET_PUBLISHERS_MAX];
    uint64_t heard_count;
    uint8_t round;
    uint64_t pace_ns;
    bool *watched;
    uint32_t *next; /* by publisher and topic */
    struct market_counts counts;
    uint64_t came_at, live_at;
    uint32_t newest;     /* highest number of a publisher heard, plus 1 */
    uint64_t newest_at;  /* time of its first message */
    uint64_t incomplete; /* watched topics without a message when the process became live */
    uint64_t returned;
    uint64_t sent_before; /* in this round */
    uint16_t skipped;     /* consumer whose reflections are not measured */
    /* From when a message was due, and was sent, to its delivery, or its return. */
    struct histogram due, sent;
    struct market_message message;
    struct rusage begun;
    uint64_t begun_at;
} market;

void feed_topic_name(uint32_t topic, char name[FEED_NAME_BYTES + 1])
{
    (void)snprintf(name, FEED_NAME_BYTES + 1, "topic%07" PRIu32, topic % 10000000);
}

static uint64_t market_field(const struct market_head *head, uint32_t i)
{
    return ((uint64_t)head->topic << 40) + ((uint64_t)head->sequence << 8) + i;
}

static uint32_t *market_next(uint32_t publisher, uint32_t topic)
{
    return &market.next[publisher * market.link.topics_max + topic];
}

/*
 * ------------------------------------------------------------------------------------------------ delivery
 */

/* Reflects a message. A refused reflection is counted, and not repeated. */
static void market_reflect(const void *data, size_t size)
{
    struct market_message back;

    memcpy(&back, data, size);
    back.head.kind = MARKET_REFLECTED;
    back.head.from = market.consumer;
    if (tail_is_on())
        back.fields[0] = llm_clock();
    if (market.feed->send(market.link.topics.first, &back, size, false))
        market.counts.reflected++;
    else
        market.counts.unreflected++;
}

static void market_greet(uint32_t topic)
{
    market.message.head =
        (struct market_head){.topic = topic,
                             .kind = MARKET_GREETING,
                             .publisher = market.publisher,
                             .from = market.consumer != 0 ? market.consumer : market.publisher};
    (void)market.feed->send(topic, &market.message, market.link.size, false);
}

/* A consumer answers greetings with its own, at intervals. */
static void market_take_greeting(const struct market_head *head)
{
    const uint32_t from = head->from % MARKET_PUBLISHERS_MAX;

    market.heard_count += !market.heard[from];
    market.heard[from] = true;
    if (market.consumer != 0 && market.link.topics.count > 0 &&
        llm_clock() > market.greeted_at + MARKET_GREET_NS) {
        market.greeted_at = llm_clock();
        market_greet(market.link.topics.first);
    }
}

/* reflected_at: time of the reflection; 0 if there is none. */
static void market_add(const struct market_head *head, uint64_t reflected_at)
{
    const uint64_t now = llm_clock();

    if (!head->measured)
        return;
    histogram_add(&market.due, now - head->due_at);
    histogram_add(&market.sent, now - head->sent_at);
    if (tail_is_on())
        tail_add(&(struct tail_sample){head->due_at, head->sent_at, reflected_at > 0 ? reflected_at : now,
                                       now, reflected_at > 0 ? head->from : head->publisher});
}

static bool market_is_intact(const struct market_message *message, size_t size)
{
    const uint32_t count = market.checks_fields ? market.field_count : 0;

    if (size != market.link.size)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (message->fields[i] != market_field(&message->head, i))
            return false;
    return true;
}

/* Counts a message by its number on its topic. */
static void market_count(const struct market_head *head)
{
    uint32_t *next = market_next(head->publisher, head->topic);

    market.counts.received++;
    if (*next != MARKET_UNKNOWN && head->sequence < *next) {
        market.counts.duplicated++;
        return;
    }
    if (*next != MARKET_UNKNOWN)
        market.counts.lost += head->sequence - *next;
    *next = head->sequence + 1;
}

/* The time is slept: computing would slow the other processes of this CPU down. */
static void market_spend(void)
{
    const struct timespec time = {.tv_sec = (time_t)(market.pace_ns / 1000000000),
                                  .tv_nsec = (long)(market.pace_ns % 1000000000)};

    (void)nanosleep(&time, NULL);
}

/* A message that was due before the process was live is part of its recovery, and is not reflected. */
static bool market_is_past(const struct market_head *head)
{
    return market.recovers && (market.live_at == 0 || head->due_at < market.live_at);
}

static void market_take_primary(const struct market_message *message, size_t size)
{
    const struct market_head *head = &message->head;

    if (head->round != market.round || head->topic >= market.link.topics_max ||
        head->publisher >= MARKET_PUBLISHERS_MAX) {
        market.counts.foreign++;
        return;
    }
    if (market.watched != NULL && !market.watched[head->topic])
        return;
    if (head->publisher >= market.newest) {
        market.newest = head->publisher + 1;
        market.newest_at = llm_clock();
    }
    market.counts.changed += !market_is_intact(message, size);
    market_count(head);
    if (head->marked && market.takes_oneway)
        market_add(head, 0);
    if (head->marked && market.consumer != 0 && !market_is_past(head))
        market_reflect(message, size);
    if (market.pace_ns > 0)
        market_spend();
}

void market_deliver(const void *data, size_t size)
{
    const struct market_message *message = data;

    if (size < sizeof message->head) {
        market.counts.foreign++;
    } else if (message->head.kind == MARKET_PRIMARY) {
        market_take_primary(message, size);
    } else if (message->head.kind == MARKET_GREETING) {
        market_take_greeting(&message->head);
    } else if (message->head.round == market.round) {
        market.returned++;
        /* Its own only: a publisher that began later also gets reflections from before it was there. */
        if (message->head.from != market.skipped && message->head.publisher == market.publisher)
            market_add(&message->head, message->fields[0]);
    }
}

/* Counts the watched topics without a last value. */
void market_live(void)
{
    if (market.live_at != 0)
        return;
    market.live_at = llm_clock();
    for (uint32_t topic = 0; topic < market.link.topics_max; topic++) {
        bool known = market.watched != NULL && !market.watched[topic];

        for (uint32_t publisher = 0; publisher < MARKET_PUBLISHERS_MAX && !known; publisher++)
            known = *market_next(publisher, topic) != MARKET_UNKNOWN;
        market.incomplete += !known;
    }
}

static int market_poll(void)
{
    const int count = market.link.blocks ? market.feed->wait(MARKET_NAP_NS) : market.feed->poll();

    if (tail_is_on())
        tail_turn(count);
    if (count > 0)
        market.came_at = llm_clock();
    else if (market.yields)
        (void)sched_yield();
    return count;
}

/* ------------------------------------------------------------------------------------------------- supply */

/* A supply: message i is due at start + i * interval. */
struct market_supply {
    uint64_t start, measured_at;
    double interval_ns;
    uint64_t total, mark;
    uint64_t sent;   /* in this supply */
    uint64_t before; /* sent earlier in the round */
    uint64_t due_at; /* of the next message */
    uint64_t late_max;
};

static uint64_t market_due(const struct market_supply *supply, uint64_t i)
{
    return supply->start + (uint64_t)((double)i * supply->interval_ns);
}

/* Returns whether the next message is to be reflected. */
static bool market_is_marked(const struct market_supply *supply)
{
    return (supply->before + supply->sent) % supply->mark == 0;
}

/* Returns whether the next message was taken. */
static bool market_supply_one(struct market_supply *supply, uint64_t now)
{
    const struct feed_range *topics = &market.link.topics;
    const uint64_t next_due_at = market_due(supply, supply->sent + 1), number = supply->before + supply->sent;
    struct market_head *head = &market.message.head;

    *head = (struct market_head){.due_at = supply->due_at,
                                 .sent_at = now,
                                 .sequence = (uint32_t)(number / topics->count),
                                 .topic = topics->first + (uint32_t)(number % topics->count),
                                 .publisher = market.publisher,
                                 .round = market.round,
                                 .kind = MARKET_PRIMARY,
                                 .marked = market_is_marked(supply),
                                 .measured = supply->due_at >= supply->measured_at};
    for (uint32_t i = 0; i < market.field_count; i++)
        market.message.fields[i] = market_field(head, i);
    if (!market.feed->send(head->topic, &market.message, market.link.size,
                           next_due_at <= now && supply->sent + 1 < supply->total))
        return false;
    if (head->measured && now - supply->due_at > supply->late_max && now > supply->due_at)
        supply->late_max = now - supply->due_at;
    supply->due_at = next_due_at;
    supply->sent++;
    return true;
}

static void market_supply(const struct control *request)
{
    const double rate = (double)control_number(request, "rate", 1000);
    const uint64_t warmup_ns = control_ns(request, "warmup", 0),
                   duration_ns = control_ns(request, "duration", 0);
    struct market_supply supply = {.start = llm_clock(), .interval_ns = 1e9 / rate};
    uint64_t now, give_up_at;

    supply.due_at = supply.start;
    supply.measured_at = supply.start + warmup_ns;
    supply.total = (uint64_t)(rate * (double)(warmup_ns + duration_ns) / 1e9);
    supply.mark = control_number(request, "mark", 1);
    supply.before = market.sent_before;
    give_up_at = market_due(&supply, supply.total) + MARKET_GRACE_NS;
    while (now = llm_clock(), supply.sent < supply.total && now < give_up_at) {
        for (int i = 0; i < MARKET_BURST && supply.sent < supply.total && now >= supply.due_at; i++) {
            /* Of messages that are not reflected nobody needs the exact time, and a reading costs more than a send. */
            if (i > 0 && market_is_marked(&supply))
                now = llm_clock();
            if (!market_supply_one(&supply, now))
                break;
        }
        (void)market_poll();
    }
    market.sent_before += supply.sent;
    json_open();
    json_counts("sent wanted late_max_ns ns",
                (uint64_t[]){supply.sent, supply.total, supply.late_max, llm_clock() - supply.start});
    json_close();
}

/*
 * ------------------------------------------------------------------------------------------------ requests
 */

static void market_on_greet(const struct control *request)
{
    market.greets = control_flag(request, "on");
    json_done(NULL, 0);
}

/* Sends the next greetings if they are due. */
static void market_greet_now(void)
{
    static uint32_t turn;

    if (!market.greets || llm_clock() < market.greeted_at + MARKET_GREET_NS)
        return;
    market.greeted_at = llm_clock();
    for (int i = 0; i < MARKET_GREETINGS; i++)
        market_greet(market.link.topics.first + turn++ % market.link.topics.count);
}

static void market_on_await(const struct control *request)
{
    const uint64_t end = llm_clock() + control_ns(request, "patience", MARKET_SILENCE_NS);

    while (market.heard_count < control_number(request, "from", 1) && llm_clock() < end) {
        market_greet_now();
        (void)market_poll();
    }
    json_done("heard", (double)market.heard_count);
}

static void market_begin(uint64_t round, bool late)
{
    const size_t numbers = (size_t)MARKET_PUBLISHERS_MAX * market.link.topics_max;

    market.round = (uint8_t)round;
    market.counts = (struct market_counts){0};
    market.returned = market.sent_before = market.incomplete = market.live_at = market.newest_at = 0;
    market.newest = 0;
    for (size_t i = 0; i < numbers; i++)
        market.next[i] = late ? MARKET_UNKNOWN : 0;
    histogram_reset(&market.due);
    histogram_reset(&market.sent);
    market.begun_at = llm_clock();
    (void)getrusage(RUSAGE_SELF, &market.begun);
}

static void market_on_pace(const struct control *request)
{
    market.pace_ns = control_ns(request, "seconds", 0);
    json_done(NULL, 0);
}

static void market_on_begin(const struct control *request)
{
    market.skipped = (uint16_t)control_number(request, "skip", 0);
    market_begin(control_number(request, "round", 1), false);
    json_done("round", market.round);
}

/* Number of messages on a topic, of all that a publisher sent. */
static uint64_t market_expected(const struct feed_range *topics, uint32_t topic, uint64_t sent)
{
    return sent / topics->count + (topic - topics->first < sent % topics->count);
}

/* Number of watched messages of a publisher that have not arrived. */
static uint64_t market_missing(uint32_t publisher, const struct feed_range *topics, uint64_t sent)
{
    uint64_t missing = 0;

    for (uint32_t topic = topics->first; topic < topics->first + topics->count; topic++) {
        const uint32_t next = *market_next(publisher, topic);
        const uint64_t expected = market_expected(topics, topic, sent);

        if ((market.watched == NULL || market.watched[topic]) && next < expected)
            missing += expected - next;
        else if (next == MARKET_UNKNOWN && expected > 0 && (market.watched == NULL || market.watched[topic]))
            missing += expected;
    }
    return missing;
}

/* The same for all publishers: sent= has FIRST-COUNT-SENT for publisher 0, 1 and so on. */
static uint64_t market_missing_all(const struct control *request)
{
    const char *text = control_text(request, "sent", "");
    uint64_t missing = 0, sent;
    struct feed_range topics;
    int used;

    for (uint32_t publisher = 0;
         publisher < MARKET_PUBLISHERS_MAX && sscanf(text, "%" SCNu32 "-%" SCNu32 "-%" SCNu64 "%n",
                                                     &topics.first, &topics.count, &sent, &used) == 3;
         publisher++) {
        missing += market_missing(publisher, &topics, sent);
        text += used + (text[used] == ',');
    }
    return missing;
}

static void market_json_times(void)
{
    json_histogram("due", &market.due);
    json_histogram("sent", &market.sent);
}

static void market_on_end(const struct control *request)
{
    const uint64_t patience_ns = control_ns(request, "patience", MARKET_SILENCE_NS);
    uint64_t missing;

    market.came_at = llm_clock();
    while ((missing = market_missing_all(request)) > 0 && llm_clock() < market.came_at + patience_ns)
        for (int i = 0; i < MARKET_BURST; i++)
            (void)market_poll();
    json_open();
    json_counts("received lost duplicated changed foreign reflected unreflected missing incomplete live_at "
                "newest newest_at",
                (uint64_t[]){market.counts.received, market.counts.lost, market.counts.duplicated,
                             market.counts.changed, market.counts.foreign, market.counts.reflected,
                             market.counts.unreflected, missing, market.incomplete, market.live_at,
                             market.newest, market.newest_at});
    market_json_times();
    json_close();
}

static void market_on_collect(const struct control *request)
{
    const uint64_t expected = control_number(request, "returned", UINT64_MAX),
                   patience_ns = control_ns(request, "patience", MARKET_SILENCE_NS);

    market.came_at = llm_clock();
    while (market.returned < expected && llm_clock() < market.came_at + patience_ns)
        (void)market_poll();
    json_open();
    json_counts("returned", (uint64_t[]){market.returned});
    market_json_times();
    json_close();
    histogram_reset(&market.due);
    histogram_reset(&market.sent);
}

static uint64_t market_cpu_ns(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

static void market_on_stats(const struct control *request)
{
    struct rusage now;

    (void)request;
    (void)getrusage(RUSAGE_SELF, &now);
    json_open();
    machine_json("machine");
    json_counts(
        "cpu_ns ns faults switches",
        (uint64_t[]){
            market_cpu_ns(&now) - market_cpu_ns(&market.begun), llm_clock() - market.begun_at,
            (uint64_t)(now.ru_minflt + now.ru_majflt - market.begun.ru_minflt - market.begun.ru_majflt),
            (uint64_t)(now.ru_nivcsw - market.begun.ru_nivcsw)});
    json_number("rss_mib", machine_resident_mib_max());
    json_number("pss_mib", machine_proportional_mib());
    json_close();
}

static void market_on_tail(const struct control *request)
{
    (void)request;
    tail_start();
    json_done(NULL, 0);
}

static const struct control_verb market_verbs[] = {
    {"greet", market_on_greet},     {"await", market_on_await}, {"begin", market_on_begin},
    {"supply", market_supply},      {"pace", market_on_pace},   {"end", market_on_end},
    {"collect", market_on_collect}, {"stats", market_on_stats}, {"tail", market_on_tail},
    {"worst", tail_on_worst},       {"stalls", tail_on_stalls}, {NULL, NULL}};

/* Parses a list of ranges. */
static bool *market_watch(const char *text)
{
    bool *watched = *text != '\0' ? control_memory(market.link.topics_max, sizeof *watched) : NULL;
    uint32_t first, last;
    int used;

    for (; sscanf(text, "%" SCNu32 "-%" SCNu32 "%n", &first, &last, &used) == 2;
         text += used + (text[used] == ','))
        for (uint32_t topic = first; topic <= last && topic < market.link.topics_max; topic++)
            watched[topic] = true;
    return watched;
}

static void market_configure(const struct control *control)
{
    struct feed_link *link = &market.link;
    uint32_t first = 0, last = 0;

    for (int i = 0; market_feeds[i] != NULL; i++)
        if (market.feed == NULL || control_is(control, "over", market_feeds[i]->name))
            market.feed = market_feeds[i];
    market.publisher = (uint16_t)control_number(control, "publisher", 0);
    market.consumer = (uint16_t)control_number(control, "consumer", 0);
    market.checks_fields = control_flag(control, "fields");
    market.takes_oneway = control_flag(control, "oneway");
    market.recovers = control_flag(control, "recovers");
    market.yields = control_is(control, "idle", "yield");
    link->blocks = control_is(control, "idle", "block") && market.feed->wait != NULL;
    link->control = control;
    link->publish = control_text(control, "publish", "");
    link->subscribe = control_text(control, "subscribe", "");
    link->size = control_number(control, "size", 264);
    link->cache = (uint32_t)control_number(control, "cache", 0);
    link->topics_max = (uint32_t)control_number(control, "topics", 1);
    if (sscanf(control_text(control, "own", ""), "%" SCNu32 "-%" SCNu32, &first, &last) == 2)
        link->topics = (struct feed_range){first, last - first + 1};
    if (link->size < sizeof(struct market_head) || link->size > FEED_SIZE_MAX ||
        link->topics_max > FEED_TOPICS_MAX)
        control_fail("size or topics", "are out of bounds");
    market.field_count = (uint32_t)((link->size - sizeof(struct market_head)) / sizeof(uint64_t));
    market.field_count = market.field_count < MARKET_FIELDS ? market.field_count : MARKET_FIELDS;
    market.watched = market_watch(control_text(control, "watch", ""));
    link->watched = market.watched;
    market.next = control_memory((size_t)MARKET_PUBLISHERS_MAX * link->topics_max, sizeof *market.next);
    histogram_init(&market.due, 0);
    histogram_init(&market.sent, 0);
    market_begin(control_number(control, "round", 0), control_flag(control, "late"));
}

int market_run(const struct control *control)
{
    struct control request;
    int came;

    market_configure(control);
    if (control_flag(control, "later")) {
        json_done("ready", 0);
        if (control_take(&request, CONTROL_FOREVER) < 0)
            return 0;
    }
    market.feed->open(&market.link);
    json_done("ready", 1);
    while ((came = control_take(&request, 0)) >= 0) {
        if (came > 0)
            control_serve(&request, market_verbs);
        market_greet_now();
        for (int i = 0; i < (market.link.blocks ? 1 : MARKET_BURST); i++)
            (void)market_poll();
    }
    market.feed->close();
    return 0;
}
