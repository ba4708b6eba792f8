/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "requests.h"

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

#define ANSWER_IDLE_US 100 /* between polls while nothing is measured: leaves the core to the probe */
#define ANSWER_RAW_SILENCE_NS 500000000ull
#define ANSWER_RAW_SPINS 1024 /* empty receives between two looks at the clock */
#define ANSWER_DATAGRAM_MAX 65536

struct answer {
    struct llm_context *context;
    struct llm_listener *listener;
    struct llm_connection *connection; /* over, and to be closed; NULL: none */
    int raw;       /* socket, -1: none */
    bool spins;    /* something is measured */
    bool raw_next;
    bool over;
    uint64_t refused;
    uint64_t waited_ns; /* when it began */
};

/* --------------------------------------------------------------------------------------------------------------- raw */

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

int requests_raw_open(const char *channel, bool bound)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    char host[128], service[16];
    unsigned port;
    int fd = -1;

    errno = 0;
    if (!requests_split(channel, host, sizeof host, &port)) {
        (void)fprintf(stderr, "requests: --channel %s: must have a host and a port, such as udp://10.0.0.2:5041\n", channel);
        return -1;
    }
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
        (void)fprintf(stderr, "requests: %s cannot be measured bare, port %s: %s. Name one host by its address, or give "
                              "--no-raw on both ends\n", channel, service, errno != 0 ? strerror(errno) : "not an address");
    return fd;
}

/* The first datagram says where the replies go: from then on the socket hears nobody else. */
static bool answer_raw_first(struct answer *answer, uint8_t *data)
{
    const uint64_t begun_at = llm_clock();
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    ssize_t got;

    /* The reply to the request that asked for this may be lost, and is repaired. */
    while ((got = recvfrom(answer->raw, data, ANSWER_DATAGRAM_MAX, 0, (struct sockaddr *)&from, &size)) < 0) {
        if (llm_clock() - begun_at > ANSWER_RAW_SILENCE_NS)
            return false;
        (void)llm_poll(answer->context);
    }
    return connect(answer->raw, (const struct sockaddr *)&from, size) == 0 && send(answer->raw, data, (size_t)got, 0) == got;
}

/* For a datagram nothing is done but to receive and to send it; the clock is read only when there is none. */
static void answer_raw_serve(struct answer *answer)
{
    static uint8_t data[ANSWER_DATAGRAM_MAX];
    uint64_t silent_since = 0;
    unsigned empty = 0;
    struct requests_head head;

    if (!answer_raw_first(answer, data))
        return;
    for (;;) {
        const ssize_t got = recv(answer->raw, data, sizeof data, 0);

        if (got < (ssize_t)sizeof head) {
            if (++empty % ANSWER_RAW_SPINS != 0)
                continue;
            silent_since = silent_since == 0 ? llm_clock() : silent_since;
            if (llm_clock() - silent_since > ANSWER_RAW_SILENCE_NS)
                return;
            continue;
        }
        silent_since = 0;
        memcpy(&head, data, sizeof head);
        if (head.kind == REQUESTS_RAW_END)
            return;
        (void)send(answer->raw, data, (size_t)got, 0);
    }
}

/* What an earlier measurement left, its end above all, must not come into the next one. */
static void answer_raw_drain(struct answer *answer)
{
    uint8_t data[sizeof(struct requests_head)];

    while (answer->raw >= 0 && recv(answer->raw, data, sizeof data, 0) >= 0)
        continue;
}

/* Deaf to the one before, which may have another port the next time. */
static void answer_raw(struct answer *answer)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

    answer->raw_next = false;
    if (answer->raw < 0)
        return;
    answer_raw_serve(answer);
    (void)connect(answer->raw, &nobody, sizeof nobody);
}

/* ---------------------------------------------------------------------------------------------------------- requests */

static void answer_control(struct answer *answer, struct llm_connection *connection, const struct llm_asked *asked,
                           uint32_t kind)
{
    struct requests_result result;
    struct machine machine;
    char text[256];

    switch (kind) {
    case REQUESTS_HELLO:
        machine_describe(&machine);
        machine_print(&machine, text, sizeof text);
        (void)llm_reply(connection, asked->id, text, strlen(text));
        break;
    case REQUESTS_START:
        answer->spins = true;
        answer->refused = 0;
        answer->waited_ns = machine_waited_ns();
        (void)llm_reply(connection, asked->id, NULL, 0);
        break;
    case REQUESTS_END:
        answer->spins = false;
        result = (struct requests_result){answer->refused, machine_waited_ns() - answer->waited_ns};
        (void)llm_reply(connection, asked->id, &result, sizeof result);
        break;
    case REQUESTS_RAW:
        answer_raw_drain(answer);
        answer->raw_next = true;
        (void)llm_reply(connection, asked->id, NULL, 0);
        break;
    default:
        break;
    }
}

static void on_asked(void *arg, struct llm_connection *connection, const struct llm_asked *asked)
{
    struct answer *answer = arg;
    struct requests_head head;

    if (asked->size < sizeof head)
        return;
    memcpy(&head, asked->data, sizeof head);
    if (head.kind < REQUESTS_WARMUP)
        answer_control(answer, connection, asked, head.kind);
    else if (llm_reply(connection, asked->id, asked->data, asked->size) != LLM_OK)
        answer->refused++;
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct answer *answer = arg;

    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    if (event->reason != LLM_REASON_CLOSED)
        (void)fprintf(stderr, "requests: whoever asked is gone: %s\n", llm_reason_name(event->reason));
    answer->connection = connection;
    answer->over = true;
}

static int on_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                     struct llm_connection_handlers *handlers)
{
    (void)listener;
    (void)caller;
    handlers->arg = arg;
    handlers->request = on_asked;
    handlers->event = on_event;
    return LLM_OK;
}

static void answer_serve(struct answer *answer)
{
    while (!answer->over) {
        (void)llm_poll(answer->context);
        if (answer->raw_next)
            answer_raw(answer);
        else if (!answer->spins)
            (void)usleep(ANSWER_IDLE_US);
    }
    answer->over = answer->spins = false;
    (void)llm_connection_close(&answer->connection);
}

int requests_answer(const char *channel, bool keep, bool raw)
{
    struct answer answer = {.raw = raw ? requests_raw_open(channel, true) : -1};
    struct llm_listener_handlers handlers;
    int error;

    if (raw && answer.raw < 0)
        return 1;
    llm_listener_handlers_init(&handlers);
    handlers.arg = &answer;
    handlers.request = on_caller;
    error = llm_context_open(NULL, &answer.context);
    if (error == LLM_OK)
        error = llm_listen(answer.context, channel, NULL, &handlers, &answer.listener);
    if (error == LLM_OK) {
        (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
        do
            answer_serve(&answer);
        while (keep);
    } else {
        (void)fprintf(stderr, "requests: %s: %s\n", channel, llm_error_text(error));
    }
    (void)llm_listener_close(&answer.listener);
    (void)llm_context_close(&answer.context);
    if (answer.raw >= 0)
        (void)close(answer.raw);
    return error != LLM_OK;
}
