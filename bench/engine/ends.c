/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the near end:
 *   greet wait=SECONDS              send greetings until one comes back
 *   hop bare=0|1 size= rate= duration= warmup= samples= topics= packed= all= mode=paced|flood|pingpong
 *   returned count=N                wait for returned messages; answers with the latencies of the last hop
 *   pump size= rate= duration= messages= warmup= topics= batch=   rate 0: as fast as messages are taken
 *   blast place= way= size= duration= look=0|1    bare datagrams at full speed; look=1: is the way possible?
 * to the far end:
 *   echo bare=0|1 size= packed= all=  send back stamped messages, or all; answers at once
 *   sink size= read=all|header      count messages; answers at once
 *   end sent=N warmup=N settle=0|1  end the measurement; answers with its counts
 *   blast place= segmented=0|1      answers at once, and again at the end of the blast
 * to both: counters.
 *
 * bare=0 is the first adapter, 1 the second. Messages of adapters without numbers begin with struct
 * ends_head, and all messages of hops with struct ends_stamped. In a pump of an adapter with numbers, byte i
 * of message n is n + i modulo 256, so that the measurement writes no message.
 */
#define _GNU_SOURCE
#include "../adapters/adapter.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <llm/llm.h>

#include "../raw/raw.h"
#include "machine.h"

#define ENDS_LEAD_NS 100000ull    /* from a request to the first message */
#define ENDS_GRACE_NS 50000000ull /* a stream that overruns by more has not reached its rate, and is ended */
#define ENDS_RETURN_NS 5000000ull /* from the last message, for those that are still under way */
#define ENDS_SILENCE_NS 1000000000ull /* without messages for so long, missing ones count as lost */
#define ENDS_HELLO_NS 20000000ull     /* between two greetings */
#define ENDS_REST_NS 100000ull  /* between two polls outside of measurements: leaves the core to the probe */
#define ENDS_LOOK_NS 5000000ull /* longest sleep during a measurement */
#define ENDS_SAMPLE_NS 1000000ull /* between two samples of the count */

enum {
    ENDS_BURST = 256,       /* overdue messages that are sent between two polls */
    ENDS_LOOK_POLLS = 1024, /* empty polls between two checks for a request */
    ENDS_SAMPLES = 8192,    /* samples of the first seconds, which include the end of warm-up */
    ENDS_PATTERN = 256,
    /* Minimum size of a stamped message; one shorter than struct ends_stamped omits submitted_at. */
    ENDS_STAMPED_MIN = 16,
    ENDS_SIZE_MAX = 16777216,
};

enum ends_kind { ENDS_HELLO = 0x6f6c6c65, ENDS_WARMUP = 0x6d726177, ENDS_DATA = 0x61746164 };

struct ends_head {
    uint32_t sequence; /* from 0 in each measurement */
    uint32_t kind;
};

struct ends_stamped {
    struct ends_head head;
    uint64_t due_at; /* 0: not stamped */
    uint64_t submitted_at;
};

enum ends_state { ENDS_IDLE, ENDS_HOP, ENDS_ECHO, ENDS_SINK };

enum ends_mode { ENDS_PACED, ENDS_FLOOD, ENDS_PING_PONG };

/* Schedule of a hop's messages. Paced: message i is due at start + i * interval; else when it is sent. */
struct ends_plan {
    enum ends_mode mode;
    uint64_t start;
    uint64_t measured_at; /* messages due earlier are warm-up */
    uint64_t end;
    double interval_ns;
    uint64_t due_at; /* due time of the next message if paced; else 0 */
    uint64_t total;
    uint64_t warmup;   /* number of warm-up messages */
    uint64_t stamp_ns; /* minimum time between two stamped messages */
    uint64_t stamp_at;
};

struct ends_sample {
    uint64_t at;
    uint64_t came;
    uint64_t kernel_ns;
};

static struct ends {
    struct adapter_link link;
    const struct adapter *adapters[2];
    const struct adapter *adapter; /* the adapter under measurement */
    enum adapter_idle idle;
    enum ends_state state;
    size_t size; /* bytes of a message */
    bool all;    /* send back all messages, not only stamped ones */
    bool refused;
    uint64_t read; /* sum of the bytes read */
    uint8_t *message;
    struct histogram rtt, submitted;
    uint64_t waited_ns; /* run-queue wait of this process at the start of the measurement */
    /* Written by the delivering thread, which may belong to the library. */
    _Atomic uint64_t hellos;
    _Atomic uint64_t expected; /* number of the next message */
    _Atomic uint64_t came;     /* whole and in order */
    _Atomic uint64_t lost;
    _Atomic uint64_t disordered;
    _Atomic uint64_t reflected;
    _Atomic uint64_t unreflected; /* refused by the adapter */
    _Atomic uint64_t returned;
    _Atomic uint64_t last_at;
    uint64_t sample_at;
    size_t sample_count;
    struct ends_sample samples[ENDS_SAMPLES];
} ends;

int adapter_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", ends.adapter->name, what, why);
    return -1;
}

bool adapter_is_refused(void)
{
    return ends.refused;
}

void adapter_prefer_idle(enum adapter_idle idle)
{
    ends.idle = idle;
}

/* --------------------------------------------------------------------------------------------------- idle */

static void ends_idle(uint64_t until)
{
    if (ends.idle == ADAPTER_YIELD)
        (void)sched_yield();
    else if (ends.idle == ADAPTER_SLEEP && ends.adapter->wait != NULL)
        ends.adapter->wait(until);
    else if (ends.idle == ADAPTER_SLEEP)
        adapter_sleep(NULL, 0, until);
}

/* Polls, and releases the core for a while if nothing was received. */
static void ends_rest(void)
{
    if (ends.adapter->poll() == 0)
        adapter_sleep(NULL, 0, llm_clock() + ENDS_REST_NS);
}

static bool ends_send(const void *data, size_t size, bool more)
{
    ends.refused = ends.adapter->send(data, size, more) == 0;
    return !ends.refused;
}

/* ----------------------------------------------------------------------------------------------- delivery */

static uint64_t ends_get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void ends_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, ends_get(counter) + value, memory_order_relaxed);
}

/* Counts a message by its number. Gaps in numbers from 0 are losses; others are found at the end. */
static void ends_count(uint64_t number, bool intact, bool from_zero)
{
    const uint64_t expected = ends_get(&ends.expected);

    if (number < expected) {
        ends_add(&ends.disordered, 1);
        return;
    }
    if (from_zero)
        ends_add(&ends.lost, number - expected);
    atomic_store_explicit(&ends.expected, number + 1, memory_order_relaxed);
    ends_add(&ends.came, intact);
}

static void ends_reflect(const void *data, size_t size, uint64_t due_at)
{
    if (due_at == 0 && !ends.all)
        return;
    if (ends.adapter->send(data, size, false) != 0)
        ends_add(&ends.reflected, 1);
    else
        ends_add(&ends.unreflected, 1);
}

static void ends_take_return(const struct ends_stamped *stamped)
{
    uint64_t now;

    ends_add(&ends.returned, 1);
    if (stamped->due_at == 0 || stamped->head.kind != ENDS_DATA)
        return;
    now = llm_clock();
    histogram_add(&ends.rtt, now - stamped->due_at);
    if (stamped->submitted_at != 0)
        histogram_add(&ends.submitted, now - stamped->submitted_at);
}

/* Reads a message, as an application would: in shared memory an unread cache line crosses no core. */
static void ends_read_all(const uint8_t *data, size_t size)
{
    uint64_t sum = 0, word;

    for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(&word, data, sizeof word);
        sum += word;
    }
    while (size-- > 0)
        sum += *data++;
    ends.read += sum;
}

static bool ends_is_intact(const uint8_t *data, size_t size, uint64_t number)
{
    return size == ends.size && data[0] == (uint8_t)number && data[size - 1] == (uint8_t)(number + size - 1);
}

static void ends_take(const void *data, size_t size, const uint64_t *number)
{
    struct ends_stamped stamped = {.head = {.kind = 0}};

    memcpy(&stamped, data, size < sizeof stamped ? size : sizeof stamped);
    if (stamped.head.kind == ENDS_HELLO) {
        ends_add(&ends.hellos, 1);
        return;
    }
    if (ends.link.reads_all)
        ends_read_all(data, size);
    if (ends.state == ENDS_HOP && size == ends.size) {
        ends_take_return(&stamped);
    } else if (ends.state == ENDS_ECHO && size == ends.size) {
        ends_reflect(data, size, stamped.due_at);
        ends_count(stamped.head.sequence, stamped.head.kind == ENDS_DATA, true);
    } else if (ends.state == ENDS_SINK && number != NULL) {
        ends_count(*number, ends_is_intact(data, size, *number), false);
    } else if (ends.state == ENDS_SINK && size == ends.size) {
        ends_count(stamped.head.sequence, true, true);
    }
}

void adapter_deliver(const void *data, size_t size)
{
    ends_take(data, size, NULL);
}

/* Fast path: an intact message of a pump, which no greeting is. */
void adapter_deliver_numbered(const void *data, size_t size, uint64_t number)
{
    if (ends.state != ENDS_SINK || ends.link.reads_all || !ends_is_intact(data, size, number)) {
        ends_take(data, size, &number);
        return;
    }
    ends_count(number, true, false);
}

void adapter_delivered(void)
{
    uint64_t now;

    if (ends.state != ENDS_SINK)
        return;
    now = llm_clock();
    atomic_store_explicit(&ends.last_at, now, memory_order_relaxed);
    if (now < ends.sample_at || ends.sample_count == ENDS_SAMPLES)
        return;
    ends.sample_at = now + ENDS_SAMPLE_NS;
    ends.samples[ends.sample_count++] = (struct ends_sample){now, ends_get(&ends.came), machine_kernel_ns()};
}

/* Starts a measurement. */
static void ends_begin(const struct control *control, enum ends_state state)
{
    ends.adapter = ends.adapters[control_flag(control, "bare")];
    ends.size = (size_t)control_number(control, "size", 45);
    if (ends.size > ENDS_SIZE_MAX || (state != ENDS_SINK && ends.size < ENDS_STAMPED_MIN))
        control_fail("size", "is out of bounds");
    ends.all = control_flag(control, "all");
    ends.expected = ends.came = ends.lost = ends.disordered = ends.reflected = ends.unreflected =
        ends.returned = 0;
    ends.last_at = ends.sample_at = ends.sample_count = 0;
    ends.waited_ns = machine_waited_ns();
    if (ends.adapter->begin != NULL)
        ends.adapter->begin(ends.size, control_flag(control, "packed"));
    if (ends.adapter->topics != NULL)
        ends.adapter->topics(control_number(control, "topics", 1));
    ends.state = state;
}

/* ---------------------------------------------------------------------------------------------------- hop */

static uint64_t ends_due(const struct ends_plan *plan, uint64_t i)
{
    return plan->start + (uint64_t)((double)i * plan->interval_ns);
}

static struct ends_plan ends_plan(const struct control *control)
{
    const uint64_t warmup_ns = control_ns(control, "warmup", 50000000),
                   duration_ns = control_ns(control, "duration", 1),
                   samples = control_number(control, "samples", 1000);
    const double rate = (double)control_number(control, "rate", 0);
    const uint64_t start = llm_clock() + ENDS_LEAD_NS;
    struct ends_plan plan = {.mode = control_is(control, "mode", "flood")      ? ENDS_FLOOD
                                     : control_is(control, "mode", "pingpong") ? ENDS_PING_PONG
                                                                               : ENDS_PACED,
                             .start = start,
                             .measured_at = start + warmup_ns + 1,
                             .end = start + warmup_ns + duration_ns,
                             .total = UINT64_MAX};

    if (plan.mode == ENDS_FLOOD && samples > 0)
        plan.stamp_ns = 1000000000 / samples;
    if (plan.mode != ENDS_PACED)
        return plan;
    plan.interval_ns = 1e9 / rate;
    plan.due_at = start;
    plan.total =
        (uint64_t)(rate * (double)warmup_ns / 1e9) + 1 + (uint64_t)(rate * (double)duration_ns / 1e9 + 0.5);
    plan.end = ends_due(&plan, plan.total) + ENDS_GRACE_NS;
    if (samples > 0 && rate >= 2 * (double)samples)
        plan.stamp_ns = (uint64_t)(((double)((uint64_t)rate / samples) - 0.5) * plan.interval_ns);
    return plan;
}

static bool ends_is_due(const struct ends_plan *plan, uint64_t sent, uint64_t now)
{
    if (plan->mode == ENDS_PING_PONG)
        return ends_get(&ends.returned) == sent;
    return now >= plan->due_at && sent < plan->total;
}

/* Sends message i. Returns whether it was accepted. */
static bool ends_send_planned(struct ends_plan *plan, uint64_t i, uint64_t now)
{
    const bool paced = plan->mode == ENDS_PACED, floods = plan->mode == ENDS_FLOOD;
    const uint64_t next_due_at = paced ? ends_due(plan, i + 1) : 0;
    const bool more = floods || (paced && next_due_at <= now && i + 1 < plan->total);
    const uint64_t due_at = paced ? plan->due_at : floods && plan->stamp_ns == 0 ? llm_clock() : now;
    const bool warms = due_at < plan->measured_at, stamps = due_at >= plan->stamp_at;

    const struct ends_stamped stamped = {.head = {(uint32_t)i, warms ? ENDS_WARMUP : ENDS_DATA},
                                         .due_at = stamps ? due_at : 0,
                                         .submitted_at = now};

    memcpy(ends.message, &stamped, ends.size < sizeof stamped ? ends.size : sizeof stamped);
    if (!ends_send(ends.message, ends.size, more))
        return false;
    plan->warmup = warms ? i + 1 : plan->warmup;
    plan->stamp_at = stamps ? due_at + plan->stamp_ns : plan->stamp_at;
    plan->due_at = next_due_at;
    return true;
}

/*
 * Sends due messages and polls, in turn. Of several due messages all but the last are only packed, so that a
 * backlog leaves at once. Returns the number sent: all, unless the rate cannot be reached.
 */
static uint64_t ends_run_plan(struct ends_plan *plan)
{
    uint64_t sent = 0, now;

    while (now = llm_clock(), sent < plan->total && now < plan->end) {
        for (int burst = 0; burst < ENDS_BURST && ends_is_due(plan, sent, now); burst++, sent++)
            if (!ends_send_planned(plan, sent, now))
                break;
        if (ends.adapter->poll() == 0 && plan->mode != ENDS_FLOOD)
            ends_idle(plan->mode == ENDS_PACED ? plan->due_at : plan->end);
    }
    return sent;
}

static uint64_t ends_counter(const char *name)
{
    return ends.adapter->counter != NULL ? ends.adapter->counter(name) : 0;
}

static void ends_hop(const struct control *control)
{
    struct ends_plan plan;
    uint64_t sent, messages, packets, ended_at;

    ends_begin(control, ENDS_HOP);
    histogram_reset(&ends.rtt);
    histogram_reset(&ends.submitted);
    memset(ends.message, 'x', ends.size);
    messages = ends_counter("messages_sent");
    packets = ends_counter("packets_data");
    plan = ends_plan(control);
    sent = ends_run_plan(&plan);
    ended_at = llm_clock();
    /* The last message is often a sample: its return is read now, not when the runner asks for it. */
    while (llm_clock() < ended_at + ENDS_RETURN_NS)
        (void)ends.adapter->poll();
    json_open();
    json_counts("sent warmup whole messages packets waited_ns",
                (uint64_t[]){sent, plan.warmup, sent == plan.total, ends_counter("messages_sent") - messages,
                             ends_counter("packets_data") - packets, machine_waited_ns() - ends.waited_ns});
    json_number("reached", (double)sent * 1e9 / (double)(ended_at - plan.start));
    json_close();
}

static void ends_returned(const struct control *control)
{
    const uint64_t count = control_number(control, "count", 0), give_up_at = llm_clock() + ENDS_SILENCE_NS;

    while (ends.returned < count && llm_clock() < give_up_at)
        ends_rest();
    ends.state = ENDS_IDLE;
    json_open();
    json_counts("returned", (uint64_t[]){ends.returned});
    json_histogram("rtt", &ends.rtt);
    json_histogram("submitted", &ends.submitted);
    json_number("mib", machine_resident_mib());
    json_close();
}

static void ends_send_greeting(void)
{
    const struct ends_stamped hello = {.head = {.kind = ENDS_HELLO}};
    const size_t size = ends.link.size > 0 ? ends.link.size : sizeof hello;

    memcpy(ends.message, &hello, size < sizeof hello ? size : sizeof hello);
    (void)ends_send(ends.message, size, false);
}

/* Sends greetings until one comes back: both directions then work, whatever setup the library needs. */
static void ends_greet(const struct control *control)
{
    const uint64_t give_up_at = llm_clock() + control_ns(control, "wait", 30000000000);

    while (ends.hellos == 0) {
        const uint64_t until = llm_clock() + ENDS_HELLO_NS;

        if (until > give_up_at)
            control_fail("no message came there and back", "the two directions do not both work");
        ends_send_greeting();
        while (ends.hellos == 0 && llm_clock() < until)
            ends_rest();
    }
    json_done(NULL, 0);
}

/* Returns one greeting for each received, since the first may arrive before the return direction works. */
static void ends_greet_back(void)
{
    static uint64_t answered;

    if (ends.hellos == answered || ends.link.near)
        return;
    answered = ends.hellos;
    ends_send_greeting();
}

/* --------------------------------------------------------------------------------------------------- pump */

/* Returns how many of count messages were accepted; all but the last are sent with more to follow. */
static uint64_t ends_batch(uint64_t sent, uint64_t count)
{
    struct ends_head head = {.sequence = (uint32_t)sent, .kind = ENDS_DATA};

    if (ends.adapter->pump != NULL) {
        const uint64_t taken = ends.adapter->pump(ends.message, ends.size, count);

        ends.refused = taken < count;
        return taken;
    }
    for (uint64_t i = 0; i < count; i++, head.sequence++) {
        memcpy(ends.message, &head, sizeof head);
        if (!ends_send(ends.message, ends.size, i + 1 < count))
            return i;
    }
    return count;
}

/* Counts of the transmitter at the end of warm-up. */
struct ends_mark {
    uint64_t sent;
    uint64_t at;
    uint64_t kernel_ns;
    uint64_t packets;
    uint64_t bytes;
    uint64_t repaired;
};

static struct ends_mark ends_marked(uint64_t sent)
{
    return (struct ends_mark){sent,
                              llm_clock(),
                              machine_kernel_ns(),
                              ends_counter("packets_sent"),
                              ends_counter("bytes_sent"),
                              ends_counter("packets_repaired")};
}

static uint64_t ends_stream(const struct control *control, struct ends_mark *mark)
{
    const uint64_t batch = control_number(control, "batch", ends.adapter->batch),
                   messages = control_number(control, "messages", 0);
    const uint64_t warmup_ns = control_ns(control, "warmup", 200000000),
                   duration_ns = control_ns(control, "duration", 1000000000);
    const double rate = strtod(control_text(control, "rate", "0"), NULL);
    const uint64_t start = llm_clock();
    uint64_t sent = 0, now;

    while (now = llm_clock(),
           mark->at == 0 || (messages > 0 ? sent - mark->sent < messages : now - mark->at < duration_ns)) {
        const double due = rate > 0 ? rate * (double)(now - start) / 1e9 - (double)sent : (double)batch;
        uint64_t count = due >= (double)batch ? batch : due > 0 ? (uint64_t)due : 0;

        if (mark->at != 0 && messages > 0 && mark->sent + messages - sent < count)
            count = mark->sent + messages - sent;
        sent += ends_batch(sent, count);
        if (ends.adapter->poll() == 0 && (ends.refused || count == 0))
            ends_idle(now + (count == 0 ? (uint64_t)(1e9 / rate) : ENDS_REST_NS * 10));
        if (mark->at == 0 && now - start >= warmup_ns)
            *mark = ends_marked(sent);
    }
    return sent;
}

static void ends_pump(const struct control *control)
{
    struct ends_mark mark = {.at = 0}, after;
    uint64_t sent;

    ends_begin(control, ENDS_SINK); /* nothing is sent back */
    for (size_t i = 0; i < ends.size + ENDS_PATTERN; i++)
        ends.message[i] = (uint8_t)i;
    sent = ends_stream(control, &mark);
    after = ends_marked(sent);
    ends.state = ENDS_IDLE;
    json_open();
    json_counts("sent warmup packets bytes repaired waited_ns",
                (uint64_t[]){sent, mark.sent, after.packets - mark.packets, after.bytes - mark.bytes,
                             after.repaired - mark.repaired, machine_waited_ns() - ends.waited_ns});
    json_number("mib", machine_resident_mib());
    json_number("kernel_share", (double)(after.kernel_ns - mark.kernel_ns) / (double)(after.at - mark.at));
    json_close();
}

/* ---------------------------------------------------------------------------------------------------- far */

/* Polls without pause until a request arrives. */
static int ends_measure(struct control *request)
{
    unsigned empty = 0;

    for (;;) {
        int came;

        if (ends.adapter->poll() > 0)
            continue;
        if (ends.idle != ADAPTER_SPIN)
            ends_idle(llm_clock() + ENDS_LOOK_NS);
        else if (++empty % ENDS_LOOK_POLLS != 0)
            continue;
        came = control_take(request, 0);
        if (came != 0)
            return came;
    }
}

/* Waits for messages in flight and for repairs. */
static void ends_settle(uint64_t sent)
{
    const bool sinks = ends.state == ENDS_SINK && ends.adapter->pump != NULL;
    uint64_t heard_at = llm_clock(), before = 0;

    for (;;) {
        const uint64_t came =
            sinks ? ends_get(&ends.came) + ends_get(&ends.disordered) : ends_get(&ends.expected);

        if (came >= sent || llm_clock() - heard_at > ENDS_SILENCE_NS)
            break;
        heard_at = came != before ? llm_clock() : heard_at;
        before = came;
        ends_rest();
    }
    if (sinks)
        ends.lost = sent > ends.came ? sent - ends.came : 0;
    else if (ends.expected < sent)
        ends_add(&ends.lost, sent - ends.expected);
}

/* Returns the state at the end of warm-up, from the first sample after it. */
static struct ends_sample ends_warm(uint64_t warm)
{
    size_t i = 0;

    while (i + 1 < ends.sample_count && ends.samples[i].came < warm)
        i++;
    return ends.samples[i];
}

static void ends_end(const struct control *control)
{
    const uint64_t waited_ns = machine_waited_ns() - ends.waited_ns;
    struct ends_sample warm;

    if (control_number(control, "settle", 1) != 0)
        ends_settle(control_number(control, "sent", 0));
    warm = ends_warm(control_number(control, "warmup", 0));
    json_open();
    json_counts("came lost disordered reflected unreflected measured ns kernel_ns waited_ns",
                (uint64_t[]){ends.came, ends.lost, ends.disordered, ends.reflected, ends.unreflected,
                             ends.came - warm.came, ends.last_at > warm.at ? ends.last_at - warm.at : 0,
                             machine_kernel_ns() - warm.kernel_ns, waited_ns});
    json_number("mib", machine_resident_mib());
    json_close();
    ends.state = ENDS_IDLE;
}

static void ends_echo(const struct control *control)
{
    ends_begin(control, ENDS_ECHO);
    json_done(NULL, 0);
}

static void ends_sink(const struct control *control)
{
    ends_begin(control, ENDS_SINK);
    json_done(NULL, 0);
}

/* ----------------------------------------------------------------------------------------------- requests */

static void ends_counters(const struct control *control)
{
    (void)control;
    json_open();
    if (ends.adapters[0]->counters != NULL)
        ends.adapters[0]->counters();
    json_close();
}

static void ends_blast(const struct control *control)
{
    raw_serve_blast(control, ends.link.near);
}

static const struct control_verb ends_verbs[] = {
    {"greet", ends_greet},       {"hop", ends_hop},   {"returned", ends_returned}, {"pump", ends_pump},
    {"echo", ends_echo},         {"sink", ends_sink}, {"end", ends_end},           {"blast", ends_blast},
    {"counters", ends_counters}, {NULL, NULL}};

static void ends_serve(void)
{
    struct control control;
    int came = 0;

    for (; came >= 0;
         came = ends.state < ENDS_ECHO ? control_take(&control, ENDS_REST_NS) : ends_measure(&control)) {
        if (came > 0) {
            control_serve(&control, ends_verbs);
            continue;
        }
        /* The other adapter has no urgent work. */
        ends.adapter = ends.adapters[0];
        (void)ends.adapter->poll();
        ends_greet_back();
    }
}

int ends_run(const struct control *control, const struct adapter *first, const struct adapter *second)
{
    int failed = 0;

    ends.link = adapter_link_of(control, strcmp(control->verb, "near") == 0);
    ends.adapters[0] = first;
    ends.adapters[1] = second;
    ends.idle = ends.link.throughput ? first->idle_throughput : first->idle_reflector;
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* exact wake-ups; threads inherit the setting */
    ends.message = control_memory(1, ENDS_SIZE_MAX + ENDS_PATTERN);
    histogram_init(&ends.rtt, 0);
    histogram_init(&ends.submitted, 0);
    for (int i = 0; i < 2 && failed == 0; i++) {
        ends.adapter = ends.adapters[i];
        failed = ends.adapter != NULL ? ends.adapter->open(&ends.link) : 0;
    }
    if (failed == 0) {
        ends.adapter = first;
        /* Prevents page faults during a measurement; not every user may lock memory. */
        (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
        json_open();
        machine_json("machine");
        json_close();
        ends_serve();
    }
    for (int i = 0; i < 2; i++) {
        ends.adapter = ends.adapters[i];
        if (ends.adapter != NULL)
            ends.adapter->close();
    }
    free(ends.message);
    return failed != 0;
}
