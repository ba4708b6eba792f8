/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "echo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine.h"

#define ECHO_IDLE_US 100 /* between polls while nothing is measured: leaves the core to the probe */
#define ECHO_RAW_SILENCE_NS 200000000ull
#define ECHO_RAW_SPINS 1024 /* empty receives between two looks at the clock */

enum echo_state { ECHO_IDLE, ECHO_MEASURE, ECHO_RAW, ECHO_LOAD, ECHO_DONE, ECHO_FAILED };

struct echo {
    struct peer peer;
    const struct echo_options *options;
    enum echo_state state;
    bool reflect_all;
    bool greeted;
    uint32_t expected; /* sequence of the next message */
    uint64_t received; /* measured messages */
    uint64_t lost;
    uint64_t disordered;
    uint64_t reflected; /* stamped or not, measured or not */
    uint64_t refused;   /* that the library did not take for sending back */
    uint64_t waited_ns; /* for the core, when the measurement began */
    struct peer_control load; /* the request that is to be answered */
    struct raw_end *raw_send; /* NULL: raw measurements are not served */
    struct raw_end *raw_receive;
    size_t raw_bytes; /* of a message in the datagrams of the raw measurement */
};

/* ------------------------------------------------------------------------------------------------------------ messages */

static void echo_count(struct echo *echo, const struct peer_header *header)
{
    if (header->sequence != echo->expected) {
        if (header->sequence < echo->expected) {
            echo->disordered++;
            return;
        }
        echo->lost += header->sequence - echo->expected;
    }
    echo->expected = header->sequence + 1;
    echo->received += header->kind == PEER_DATA;
}

static void echo_data(struct echo *echo, const struct llm_message *message)
{
    struct peer_stamped stamped;

    memcpy(&stamped, message->data, sizeof stamped);
    if (stamped.due_at != 0 || echo->reflect_all) {
        if (llm_send(echo->peer.topic, message->data, message->size, 0) == 0)
            echo->reflected++;
        else
            echo->refused++;
    }
    echo_count(echo, &stamped.header);
}

static void echo_start(struct echo *echo, const struct peer_control *request)
{
    echo->reflect_all = request->values[0] != 0;
    echo->expected = 0;
    echo->received = 0;
    echo->lost = 0;
    echo->disordered = 0;
    echo->reflected = 0;
    echo->refused = 0;
    echo->waited_ns = machine_waited_ns();
    echo->state = ECHO_MEASURE;
    peer_reply(&echo->peer, request, NULL, 0, "");
}

static void echo_end(struct echo *echo, const struct peer_control *request)
{
    uint64_t missing = request->values[0] > echo->expected ? request->values[0] - echo->expected : 0;
    uint64_t counts[] = {
        [ECHO_RECEIVED] = echo->received,
        [ECHO_LOST] = echo->lost + missing,
        [ECHO_DISORDERED] = echo->disordered,
        [ECHO_REFLECTED] = echo->reflected,
        [ECHO_REFUSED] = echo->refused,
        [ECHO_WAITED_NS] = machine_waited_ns() - echo->waited_ns,
    };

    echo->state = ECHO_IDLE;
    peer_reply(&echo->peer, request, counts, 6, "");
}

/* What an earlier measurement left, its end above all, must not end this one. */
static void echo_expect_raw(struct echo *echo, const struct peer_control *request)
{
    bool packed = request->values[2] != 0;

    if (echo->raw_receive && raw_blast_expect(echo->raw_receive, packed) != 0) {
        peer_reply(&echo->peer, request, NULL, 0, "the reflector has no memory for the raw measurement");
        return;
    }
    echo->reflect_all = request->values[0] != 0;
    echo->raw_bytes = (size_t)request->values[1];
    if (echo->raw_bytes < sizeof(struct peer_stamped))
        echo->raw_bytes = sizeof(struct peer_stamped);
    echo->state = ECHO_RAW;
    peer_reply(&echo->peer, request, NULL, 0, "");
}

static void echo_control(struct echo *echo, const struct llm_message *message)
{
    struct peer_control request;

    peer_read_control(message, &request);
    switch (request.header.kind) {
    case PEER_HELLO:
        echo->greeted = true;
        peer_reply_hello(&echo->peer, &request);
        break;
    case PEER_START:
        echo_start(echo, &request);
        break;
    case PEER_END:
        echo_end(echo, &request);
        break;
    case PEER_RAW:
        echo_expect_raw(echo, &request);
        break;
    case PEER_LOAD:
        echo->load = request;
        echo->state = ECHO_LOAD;
        break;
    case PEER_BYE:
        echo->greeted = false;
        echo->state = echo->options->keep ? ECHO_IDLE : ECHO_DONE;
        peer_reply(&echo->peer, &request, NULL, 0, "");
        break;
    default:
        break;
    }
}

static void echo_message(void *arg, const struct llm_message *message)
{
    struct echo *echo = arg;
    struct peer_header header = peer_read_header(message);

    if (header.kind >= PEER_WARMUP && message->size >= sizeof(struct peer_stamped))
        echo_data(echo, message);
    else
        echo_control(echo, message);
}

static void echo_event(void *arg, const struct llm_event *event)
{
    struct echo *echo = arg;

    if (event->kind == LLM_EVENT_GAP)
        fprintf(stderr, "reflector: messages %llu to %llu are lost: %s\n", (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
    if (event->kind != LLM_EVENT_SESSION_END || !echo->greeted)
        return;
    fprintf(stderr, "reflector: the source ended before its measurement did: %s\n", llm_reason_name(event->reason));
    echo->greeted = false;
    echo->state = echo->options->keep ? ECHO_IDLE : ECHO_FAILED;
}

/* ----------------------------------------------------------------------------------------------------------------- raw */

/* since is when the silence was first noticed, 0 if it was not. */
static bool echo_is_silent(uint64_t *since)
{
    uint64_t now = llm_clock();

    if (*since == 0)
        *since = now;
    return now - *since > ECHO_RAW_SILENCE_NS;
}

/* Sends back what is to be sent back of a datagram's messages. False if that ends the measurement. */
static bool echo_raw_datagram(struct echo *echo, const char *datagram, size_t size)
{
    struct peer_stamped stamped;

    for (size_t at = 0; at + sizeof stamped <= size; at += echo->raw_bytes) {
        memcpy(&stamped, datagram + at, sizeof stamped);
        if (stamped.header.kind == PEER_RAW_END)
            return false;
        if (stamped.due_at == 0 && !echo->reflect_all)
            continue;
        if (raw_send(echo->raw_send, datagram + at, echo->raw_bytes) < 0)
            return false;
    }
    return true;
}

/* For a datagram nothing is done but to receive and to send it; the clock is read only when there is none. */
static void echo_raw(struct echo *echo)
{
    uint64_t silent_since = 0;
    unsigned empty = 0;

    echo->state = ECHO_IDLE;
    if (!echo->raw_receive || peer_await_raw(&echo->peer, echo->raw_receive) != 0)
        return;
    for (;;) {
        size_t size;
        const void *datagram = raw_receive(echo->raw_receive, &size);

        if (!datagram) {
            if (++empty % ECHO_RAW_SPINS == 0 && echo_is_silent(&silent_since))
                return;
            continue;
        }
        empty = 0;
        silent_since = 0;
        if (!echo_raw_datagram(echo, datagram, size))
            return;
    }
}

static int echo_open_raw(struct echo *echo)
{
    if (echo->options->raw_send.scheme == NULL)
        return 0;
    echo->raw_send = raw_open(&echo->options->raw_send, true);
    echo->raw_receive = echo->raw_send ? raw_open(&echo->options->raw_receive, false) : NULL;
    if (echo->raw_receive)
        return 0;
    fprintf(stderr, "reflector: cannot open the ends of the raw measurement: %s\n", strerror(errno));
    return -1;
}

static void echo_close_raw(struct echo *echo)
{
    raw_close(echo->raw_send);
    raw_close(echo->raw_receive);
}

/* ---------------------------------------------------------------------------------------------------------------- load */

static void echo_load(struct echo *echo)
{
    struct load_result before = {0};
    uint64_t failed = !echo->options->load || load_set(echo->options->load, echo->load.values[0], 0, &before) != 0;
    uint64_t values[] = {
        [ECHO_LOAD_FAILED] = failed,
        [ECHO_LOAD_RECEIVED] = before.messages,
        [ECHO_LOAD_CPU_NS] = before.cpu_ns,
        [ECHO_LOAD_NS] = before.ns,
    };

    echo->state = ECHO_IDLE;
    peer_reply(&echo->peer, &echo->load, values, 4, failed ? "the reflector cannot receive the load; it says why" : "");
}

/* ---------------------------------------------------------------------------------------------------------------- loop */

static void echo_serve(struct echo *echo)
{
    while (echo->state != ECHO_DONE && echo->state != ECHO_FAILED) {
        if (echo->state == ECHO_RAW) {
            echo_raw(echo);
            continue;
        }
        if (echo->state == ECHO_LOAD)
            echo_load(echo);
        while (echo->state == ECHO_MEASURE)
            llm_poll(echo->peer.context);
        llm_poll(echo->peer.context);
        if (echo->state == ECHO_IDLE)
            usleep(ECHO_IDLE_US);
    }
}

int echo_run(const struct echo_options *options)
{
    static struct echo echo;
    struct llm_handlers handlers;
    int failed;

    echo = (struct echo){.options = options};
    llm_handlers_init(&handlers);
    handlers.arg = &echo;
    handlers.message = echo_message;
    handlers.event = echo_event;
    if (echo_open_raw(&echo) != 0 || peer_open(&echo.peer, &options->channels, &handlers) != 0) {
        echo_close_raw(&echo);
        return 1;
    }
    mlockall(MCL_CURRENT | MCL_ONFAULT);
    echo_serve(&echo);
    failed = echo.state == ECHO_FAILED;
    peer_print_counters(&echo.peer, "reflector");
    peer_close(&echo.peer);
    echo_close_raw(&echo);
    return failed;
}
