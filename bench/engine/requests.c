/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a request takes over a connection until its reply is there, at steady rates and flat out, and bare UDP from one host to
 * the other and back. Both have channel=, that of the answerer. Requests of the runner to the asker:
 *   ask size= rate= duration= most=      rate 0: as many as may be outstanding, at once and whenever replies have come
 *   bare size= rate= duration= most=     the same with datagrams in the library's place, 100 ports further
 * to the answerer: serve, or bare, until the next request, which is `end`; it answers each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

#define REQUESTS_WARMUP_NS 50000000ull
#define REQUESTS_LEAD_NS 100000ull
#define REQUESTS_GRACE_NS 50000000ull     /* a stream that is later than this has not reached its rate, and is ended */
#define REQUESTS_PATIENCE_NS 1000000000ull /* with a reply */
#define REQUESTS_RAW_GRACE_NS 5000000ull
#define REQUESTS_RAW_LOST_NS 20000000ull  /* bare, flat out: what has not come back by then is lost */
#define REQUESTS_CONNECT_NS 30000000000ull
#define REQUESTS_IDLE_NS 100000ull        /* between polls while nothing is measured: leaves the core to the probe */

enum {
    REQUESTS_RAW_PORT_OFFSET = 100,
    REQUESTS_SAMPLES_PER_S = 1000000, /* at most */
    REQUESTS_BURST = 256,             /* overdue requests between two polls */
    REQUESTS_LOOK_POLLS = 1024,       /* polls between two looks for a request of the runner */
    REQUESTS_SIZE_MAX = 65536,
};

/* How requests, replies and datagrams begin. Both ends have the same byte order. */
struct requests_head {
    uint64_t due_at;   /* 0: its time is not taken */
    uint32_t measured; /* else it warms up */
    uint32_t unused;
};

/* A stream: request i is due at start + i * interval; the first so many warm up. */
struct schedule {
    uint64_t start;
    double interval_ns;
    uint64_t total;
    uint64_t warmup;
};

static struct asker {
    struct llm_context *context;
    struct llm_connection *connection;
    bool connected;
    bool over;
    int raw; /* socket */
    size_t size;
    uint64_t most;
    uint64_t outstanding;
    uint64_t answered; /* that were measured */
    uint64_t unanswered;
    uint64_t sent;
    struct histogram rtt;
    uint8_t message[REQUESTS_SIZE_MAX];
} asker;

/* The host and the port of "scheme://host:port?...", in brackets or not. False: they are not there. */
static bool requests_split(const char *channel, char *host, size_t size, unsigned *port)
{
    const char *at = strstr(channel, "://");
    size_t length, skipped;

    if (at == NULL)
        return false;
    at += 3;
    skipped = *at == '[';
    at += skipped;
    length = strcspn(at, skipped ? "]" : ":?");
    if (length == 0 || length >= size || at[length] == '\0' || at[length + skipped] != ':')
        return false;
    memcpy(host, at, length);
    host[length] = '\0';
    *port = (unsigned)strtoul(at + length + skipped + 1, NULL, 10);
    return true;
}

/* A socket that is connected to the host and port of a channel, that much further, or bound to it; it never waits. */
static int requests_raw_open(const char *channel, bool bound)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    char host[128], service[16];
    unsigned port;
    int fd = -1;

    errno = EINVAL;
    if (!requests_split(channel, host, sizeof host, &port))
        control_fail(channel, "must have a host and a port, such as udp://10.0.0.2:5041");
    (void)snprintf(service, sizeof service, "%u", port + REQUESTS_RAW_PORT_OFFSET);
    if (getaddrinfo(host, service, &hints, &found) == 0) {
        fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && (bound ? bind : connect)(fd, found->ai_addr, found->ai_addrlen) != 0) {
            (void)close(fd);
            fd = -1;
        }
        freeaddrinfo(found);
    }
    if (fd < 0)
        control_fail("the socket of the bare measurement", strerror(errno));
    return fd;
}

/* --------------------------------------------------------------------------------------------------------------- asker */

static uint64_t schedule_due(const struct schedule *schedule, uint64_t i)
{
    return schedule->start + (uint64_t)((double)i * schedule->interval_ns);
}

static struct schedule schedule_plan(uint64_t rate, uint64_t duration_ns)
{
    const uint64_t warmup = (uint64_t)((double)rate * (double)REQUESTS_WARMUP_NS / 1e9) + 1;

    return (struct schedule){.start = llm_clock() + REQUESTS_LEAD_NS, .interval_ns = 1e9 / (double)rate,
                             .total = warmup + (uint64_t)((double)rate * (double)duration_ns / 1e9 + 0.5), .warmup = warmup};
}

static void ask_take(const void *data, size_t size)
{
    struct requests_head head;

    if (size < sizeof head)
        return;
    memcpy(&head, data, sizeof head);
    asker.answered += head.measured;
    if (head.measured && head.due_at != 0)
        histogram_add(&asker.rtt, llm_clock() - head.due_at);
}

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    (void)arg;
    asker.outstanding--;
    if (reason == LLM_REASON_NONE)
        ask_take(data, size);
    else
        asker.unanswered++;
}

static void ask_write(bool measured, uint64_t due_at)
{
    const struct requests_head head = {.due_at = due_at, .measured = measured};

    memcpy(asker.message, &head, sizeof head);
}

/* False if the library does not take it now. */
static bool ask_send(bool measured, uint64_t due_at)
{
    ask_write(measured, due_at);
    if (llm_request(asker.connection, asker.message, asker.size, REQUESTS_PATIENCE_NS, on_reply, NULL) != LLM_OK)
        return false;
    asker.outstanding++;
    asker.sent += measured;
    return true;
}

/* Sends what is due, polls, and so on. Returns the rate that it reached. */
static double ask_stream(uint64_t rate, uint64_t duration_ns)
{
    const struct schedule schedule = schedule_plan(rate, duration_ns);
    const uint64_t give_up_at = schedule_due(&schedule, schedule.total) + REQUESTS_GRACE_NS;
    const uint64_t stamp_every = rate / REQUESTS_SAMPLES_PER_S + 1;
    uint64_t i = 0, now = 0;

    while (i < schedule.total && !asker.over && now <= give_up_at) {
        now = llm_clock();
        for (int burst = 0; burst < REQUESTS_BURST && i < schedule.total && schedule_due(&schedule, i) <= now; burst++, i++)
            if (!ask_send(i >= schedule.warmup, i % stamp_every == 0 ? schedule_due(&schedule, i) : 0))
                break;
        (void)llm_poll(asker.context);
    }
    return i == schedule.total ? (double)rate : (double)i * 1e9 / (double)(llm_clock() - schedule.start);
}

static double ask_flood(uint64_t duration_ns)
{
    const uint64_t measured_at = llm_clock() + REQUESTS_WARMUP_NS, before = asker.answered;
    uint64_t now;

    while ((now = llm_clock()) < measured_at + duration_ns && !asker.over) {
        while (asker.outstanding < asker.most && ask_send(now >= measured_at, now))
            now = llm_clock();
        (void)llm_poll(asker.context);
    }
    return (double)(asker.answered - before) * 1e9 / (double)(now - measured_at);
}

static double ask_own(uint64_t rate, uint64_t duration_ns)
{
    const double reached = rate > 0 ? ask_stream(rate, duration_ns) : ask_flood(duration_ns);

    while (asker.outstanding > 0 && !asker.over)
        (void)llm_poll(asker.context);
    return reached;
}

/* Takes a datagram, if there is one. */
static bool ask_raw_receive(void)
{
    uint8_t data[REQUESTS_SIZE_MAX];
    const ssize_t size = recv(asker.raw, data, sizeof data, 0);

    if (size < (ssize_t)sizeof(struct requests_head))
        return false;
    asker.outstanding -= asker.outstanding > 0;
    ask_take(data, (size_t)size);
    return true;
}

static bool ask_raw_send(bool measured, uint64_t due_at)
{
    ask_write(measured, due_at);
    return send(asker.raw, asker.message, asker.size, 0) == (ssize_t)asker.size;
}

/* The same loop as ask_stream(). */
static double ask_raw_stream(uint64_t rate, uint64_t duration_ns)
{
    const struct schedule schedule = schedule_plan(rate, duration_ns);
    const uint64_t end = schedule_due(&schedule, schedule.total) + REQUESTS_RAW_GRACE_NS;
    uint64_t i = 0, now;

    while ((now = llm_clock()) < end) {
        const uint64_t due_at = schedule_due(&schedule, i);

        if (i < schedule.total && due_at <= now && ask_raw_send(i >= schedule.warmup, due_at))
            i++;
        (void)ask_raw_receive();
    }
    return (double)rate;
}

static double ask_raw_flood(uint64_t duration_ns)
{
    const uint64_t measured_at = llm_clock() + REQUESTS_WARMUP_NS;
    uint64_t now, heard_at = measured_at, count = 0;

    while ((now = llm_clock()) < measured_at + duration_ns) {
        for (; asker.outstanding < asker.most && ask_raw_send(now >= measured_at, now); now = llm_clock())
            asker.outstanding++;
        while (ask_raw_receive()) {
            heard_at = now;
            count += now >= measured_at;
        }
        if (now > heard_at + REQUESTS_RAW_LOST_NS)
            asker.outstanding = 0;
    }
    return (double)count * 1e9 / (double)(now - measured_at);
}

static double ask_raw(uint64_t rate, uint64_t duration_ns)
{
    double reached;

    asker.outstanding = 0;
    while (ask_raw_receive())
        continue;
    reached = rate > 0 ? ask_raw_stream(rate, duration_ns) : ask_raw_flood(duration_ns);
    asker.outstanding = 0;
    return reached;
}

static void ask_serve(const struct control *request, struct machine_probe *probe)
{
    const uint64_t rate = control_number(request, "rate", 0), duration_ns = control_ns(request, "duration", 1000000000);
    const uint64_t waited_ns = machine_waited_ns();
    double reached;

    if (strcmp(request->verb, "probe") == 0) {
        json_done("ns", machine_probe_run(probe));
        return;
    }
    asker.size = (size_t)control_number(request, "size", 45);
    asker.most = control_number(request, "most", 256);
    asker.answered = asker.unanswered = asker.sent = 0;
    histogram_reset(&asker.rtt);
    reached = *request->verb == 'b' ? ask_raw(rate, duration_ns) : ask_own(rate, duration_ns);
    if (asker.over)
        control_fail("requests", "the other end does not answer any more");
    json_open();
    json_number("reached", reached);
    json_number("sent", (double)asker.sent);
    json_number("answered", (double)asker.answered);
    json_number("unanswered", (double)asker.unanswered);
    json_histogram("rtt", &asker.rtt);
    json_number("waited_ns", (double)(machine_waited_ns() - waited_ns));
    json_close();
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    (void)arg;
    (void)connection;
    asker.connected |= event->kind == LLM_EVENT_CONNECTED;
    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    asker.over = true;
    (void)fprintf(stderr, "requests: %s\n", llm_reason_name(event->reason));
}

int requests_ask(const struct control *control)
{
    const char *channel = control_text(control, "channel", "");
    struct llm_connection_handlers handlers;
    struct machine_probe probe = {0};
    struct llm_options options;
    struct control request;
    int came = 0;

    /* Before anything big is opened: the probe's process is a copy of this one. */
    machine_start(control, &probe);
    histogram_init(&asker.rtt, 0);
    asker.raw = requests_raw_open(channel, false);
    llm_connection_options_init(&options);
    options.connect_timeout_ns = REQUESTS_CONNECT_NS;
    llm_connection_handlers_init(&handlers);
    handlers.event = on_event;
    steady_ok(llm_context_open(NULL, &asker.context), "llm_context_open");
    steady_ok(llm_connect(asker.context, channel, &options, NULL, &handlers, &asker.connection), channel);
    while (!asker.connected && !asker.over)
        (void)llm_poll(asker.context);
    if (asker.over)
        control_fail(channel, "no connection");
    (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
    json_open();
    machine_json("machine");
    json_close();
    for (; came >= 0; came = control_take(&request, REQUESTS_IDLE_NS)) {
        if (came > 0)
            ask_serve(&request, &probe);
        (void)llm_poll(asker.context);
    }
    (void)llm_connection_close(&asker.connection);
    (void)llm_context_close(&asker.context);
    (void)close(asker.raw);
    histogram_fini(&asker.rtt);
    machine_probe_close(&probe);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ answerer */

static struct answerer {
    struct llm_context *context;
    struct llm_listener *listener;
    int raw;
    bool known; /* bare: whom to answer */
    uint64_t refused;
    uint64_t waited_ns; /* when it began */
} answerer;

static void on_asked(void *arg, struct llm_connection *connection, const struct llm_asked *asked)
{
    (void)arg;
    answerer.refused += llm_reply(connection, asked->id, asked->data, asked->size) != LLM_OK;
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)caller;
    handlers->request = on_asked;
    return LLM_OK;
}

/* The first datagram says where the replies go: from then on the socket hears nobody else. */
static bool answer_raw(uint8_t *data)
{
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    const ssize_t got = answerer.known ? recv(answerer.raw, data, REQUESTS_SIZE_MAX, 0)
                                       : recvfrom(answerer.raw, data, REQUESTS_SIZE_MAX, 0, (struct sockaddr *)&from, &size);

    if (got < 0)
        return false;
    answerer.known = answerer.known || connect(answerer.raw, (const struct sockaddr *)&from, size) == 0;
    (void)send(answerer.raw, data, (size_t)got, 0);
    return true;
}

/* Polls without rest until the next request of the runner. */
static int answer_serve(const struct control *control, struct control *request)
{
    const bool bare = *control->verb == 'b';
    static uint8_t data[REQUESTS_SIZE_MAX];
    unsigned empty = 0;
    int came = 0;

    answerer.refused = 0;
    answerer.waited_ns = machine_waited_ns();
    while (answerer.known && recv(answerer.raw, data, sizeof data, 0) >= 0)
        continue;
    json_done(NULL, 0);
    while (came == 0)
        if (!(bare ? answer_raw(data) : llm_poll(answerer.context) > 0) && ++empty % REQUESTS_LOOK_POLLS == 0)
            came = control_take(request, 0);
    json_open();
    json_number("refused", (double)answerer.refused);
    json_number("waited_ns", (double)(machine_waited_ns() - answerer.waited_ns));
    json_close();
    return came;
}

int requests_answer(const struct control *control)
{
    const char *channel = control_text(control, "channel", "");
    struct llm_listener_handlers handlers;
    struct control request;
    int came = 0;

    machine_start(control, NULL);
    answerer.raw = requests_raw_open(channel, true);
    llm_listener_handlers_init(&handlers);
    handlers.request = on_caller;
    steady_ok(llm_context_open(NULL, &answerer.context), "llm_context_open");
    steady_ok(llm_listen(answerer.context, channel, NULL, &handlers, &answerer.listener), channel);
    (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
    json_open();
    machine_json("machine");
    json_close();
    for (; came >= 0; came = control_take(&request, REQUESTS_IDLE_NS)) {
        if (came > 0 && strcmp(request.verb, "end") != 0)
            came = answer_serve(&request, &request);
        (void)llm_poll(answerer.context);
    }
    (void)llm_listener_close(&answerer.listener);
    (void)llm_context_close(&answerer.context);
    (void)close(answerer.raw);
    return 0;
}
