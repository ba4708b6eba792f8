/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <llm/llm.h>

#define LOAD_NET "239.193"
#define LOAD_SUBNET 250          /* groups 239.193.0.1 to 239.193.0.250, then 239.193.1.1 and so on */
#define LOAD_CONTEXT_GROUPS 250  /* a context of the udp transport has room for 256 */
#define LOAD_CONTEXTS_MAX (LOAD_GROUPS_MAX / LOAD_CONTEXT_GROUPS)
#define LOAD_DESCRIPTORS 64      /* beside one for each group */
#define LOAD_TICK_NS 10000000ull /* what is due in this time is sent at once: to wake more often would cost the cores more */
#define LOAD_QUIET_NS 10000000000ull

struct load_order {
    uint64_t groups;
    uint64_t rate;
};

struct load_answer {
    int error;
    struct load_result before;
};

/* The process that loads. */
struct load_end {
    const struct load_options *options;
    int fd;
    struct llm_context *contexts[LOAD_CONTEXTS_MAX];
    int context_count;
    struct llm_topic *topics[LOAD_GROUPS_MAX]; /* of the transmitters */
    uint64_t groups;
    uint64_t rate;
    uint64_t messages;
    uint64_t start;
    uint64_t cpu_start_ns;
    char *message;
};

/* ------------------------------------------------------------------------------------------------------------ channels */

bool load_is_apart(const char *channel)
{
    return strstr(channel, "://" LOAD_NET ".") == NULL;
}

/* The channel with another group. */
static void load_channel(const char *channel, uint64_t i, char *text, size_t size)
{
    const char *port = memrchr(channel, ':', strcspn(channel, "?"));

    snprintf(text, size, "%.*s://" LOAD_NET ".%llu.%llu%s", (int)strcspn(channel, ":"), channel,
             (unsigned long long)(i / LOAD_SUBNET), (unsigned long long)(i % LOAD_SUBNET + 1), port ? port : "");
}

/*
 * Sessions without heartbeats and reports for as long as a row takes: with the usual ones a thousand groups would carry tens
 * of thousands of packets a second, whatever the load is to be. Little memory, as there are so many.
 */
static void load_make_quiet(struct llm_options *options)
{
    llm_options_init(options);
    options->heartbeat_ns_min = LOAD_QUIET_NS;
    options->heartbeat_ns_busy = LOAD_QUIET_NS;
    options->heartbeat_ns_max = LOAD_QUIET_NS;
    options->silence_ns = 6 * LOAD_QUIET_NS;
    options->session_timeout_ns = 6 * LOAD_QUIET_NS;
    options->status_ns = 6 * LOAD_QUIET_NS;
    options->linger_ns = 0;
    options->history_bytes = 163840; /* 16 packets of the greatest size */
    options->history_packets = 64;
    options->window_packets = 64;
    options->reorder_bytes = 65536;
    options->topics_max = 16;
    options->receivers_max = 16;
    options->sessions_max = 16;
    options->message_bytes_max = 4096;
    options->rcvbuf_bytes = 1048576;
    options->sndbuf_bytes = 1048576;
}

/* ------------------------------------------------------------------------------------------------------- open and close */

static void load_message(void *arg, const struct llm_message *message)
{
    struct load_end *end = arg;

    (void)message;
    end->messages++;
}

/* Without a handler gaps would be logged; the counts of the two sides tell of them. */
static void load_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

/* A group takes a descriptor, and the usual limit is 1024. */
static int load_allow_descriptors(uint64_t groups)
{
    rlim_t wanted = groups + LOAD_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return 0;
    if (limit.rlim_max < wanted) {
        fprintf(stderr, "load: %llu groups need %llu open files, and %llu are allowed; raise that with ulimit -Hn\n",
                (unsigned long long)groups, (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
        return -1;
    }
    limit.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static int load_open_context(struct load_end *end)
{
    struct llm_context_options options;
    int error;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    options.huge_pages = false;
    error = llm_context_open(&options, &end->contexts[end->context_count]);
    end->context_count += error == 0;
    return error;
}

static int load_open_group(struct load_end *end, uint64_t i, const struct llm_options *quiet)
{
    struct llm_context *context = end->contexts[end->context_count - 1];
    struct llm_transmitter *transmitter;
    struct llm_receiver *receiver;
    struct llm_handlers handlers;
    char channel[512];
    int error;

    load_channel(end->options->channel, i, channel, sizeof channel);
    if (end->options->transmits) {
        error = llm_transmitter_open(context, channel, quiet, &transmitter);
        return error == 0 ? llm_topic_open(transmitter, "load", 0, &end->topics[i]) : error;
    }
    llm_handlers_init(&handlers);
    handlers.arg = end;
    handlers.message = load_message;
    handlers.event = load_event;
    return llm_receiver_open(context, channel, quiet, &handlers, &receiver);
}

static void load_end_all(struct load_end *end)
{
    for (int i = 0; i < end->context_count; i++)
        llm_context_close(&end->contexts[i]);
    end->context_count = 0;
    end->groups = 0;
}

static int load_begin(struct load_end *end, uint64_t groups)
{
    struct llm_options quiet;
    int error = 0;

    if (groups > LOAD_GROUPS_MAX || load_allow_descriptors(groups) != 0)
        return LLM_ELIMIT;
    load_make_quiet(&quiet);
    for (uint64_t i = 0; i < groups && error == 0; i++) {
        if (i % LOAD_CONTEXT_GROUPS == 0)
            error = load_open_context(end);
        if (error == 0)
            error = load_open_group(end, i, &quiet);
        if (error != 0)
            fprintf(stderr, "load: group %llu of %llu cannot be opened: %s\n", (unsigned long long)i + 1,
                    (unsigned long long)groups, llm_error_text(error));
    }
    if (error != 0)
        load_end_all(end);
    else
        end->groups = groups;
    return error;
}

/* --------------------------------------------------------------------------------------------------------- the process */

static uint64_t load_cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

/* A packet for each message: to pack those of one group would make few groups another load than many. */
static void load_transmit(struct load_end *end, uint64_t now)
{
    uint64_t due = (uint64_t)((double)(now - end->start) * (double)end->rate / 1e9);

    for (; end->groups > 0 && end->messages < due; end->messages++) {
        struct llm_topic *topic = end->topics[end->messages % end->groups];

        if (llm_send(topic, end->message, end->options->size, LLM_SEND_NOW) != 0)
            return;
    }
}

/* Arms and polls every context, as llm_fd() asks for. Returns how much was delivered. */
static int load_poll(struct load_end *end, struct pollfd *fds)
{
    int delivered = 0;

    for (int i = 0; i < end->context_count; i++) {
        fds[i] = (struct pollfd){.fd = llm_fd(end->contexts[i]), .events = POLLIN};
        delivered += llm_poll(end->contexts[i]);
    }
    return delivered;
}

static struct timespec load_sleep_time(const struct load_end *end, uint64_t now)
{
    uint64_t until = end->rate > 0 && end->groups > 0 ? now + LOAD_TICK_NS : now + LOAD_QUIET_NS;

    for (int i = 0; i < end->context_count; i++) {
        uint64_t at = llm_deadline(end->contexts[i]);

        if (at < until)
            until = at > now ? at : now;
    }
    return (struct timespec){.tv_sec = (time_t)((until - now) / 1000000000), .tv_nsec = (long)((until - now) % 1000000000)};
}

/* False when there are no more orders. */
static bool load_take_order(struct load_end *end)
{
    struct load_order order;
    struct load_answer answer = {.error = 0};
    struct pollfd fds[LOAD_CONTEXTS_MAX];

    if (recv(end->fd, &order, sizeof order, 0) != (ssize_t)sizeof order)
        return false;
    while (load_poll(end, fds) > 0)
        ;
    answer.before = (struct load_result){.messages = end->messages, .ns = llm_clock() - end->start,
                                         .cpu_ns = load_cpu_ns() - end->cpu_start_ns};
    load_end_all(end);
    answer.error = load_begin(end, order.groups);
    end->rate = order.rate;
    end->messages = 0;
    end->start = llm_clock();
    end->cpu_start_ns = load_cpu_ns();
    return send(end->fd, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer;
}

static void load_serve(struct load_end *end)
{
    struct pollfd fds[LOAD_CONTEXTS_MAX + 1];

    for (;;) {
        uint64_t now = llm_clock();
        struct timespec time;

        load_transmit(end, now);
        if (load_poll(end, fds) > 0)
            continue;
        fds[end->context_count] = (struct pollfd){.fd = end->fd, .events = POLLIN};
        time = load_sleep_time(end, now);
        ppoll(fds, (nfds_t)end->context_count + 1, &time, NULL);
        if (fds[end->context_count].revents != 0 && !load_take_order(end))
            return;
    }
}

static _Noreturn void load_child(const struct load_options *options, int fd)
{
    struct load_end *end = calloc(1, sizeof *end);

    /* It is of no use to anybody but its parent, however that ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!end || (end->message = calloc(1, options->size)) == NULL) {
        fprintf(stderr, "load: no memory\n");
        _exit(1);
    }
    end->options = options;
    end->fd = fd;
    end->start = llm_clock();
    load_serve(end);
    load_end_all(end);
    _exit(0);
}

/* ---------------------------------------------------------------------------------------------------------- the parent */

int load_open(struct load *load, const struct load_options *options)
{
    int ends[2];

    *load = (struct load){.fd = -1};
    if (load_allow_descriptors(options->groups_max) != 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || (load->pid = fork()) < 0) {
        fprintf(stderr, "load: its process cannot be started: %s\n", strerror(errno));
        return -1;
    }
    if (load->pid == 0) {
        close(ends[0]);
        load_child(options, ends[1]);
    }
    close(ends[1]);
    load->fd = ends[0];
    return 0;
}

int load_set(struct load *load, uint64_t groups, uint64_t rate, struct load_result *before)
{
    struct load_order order = {.groups = groups, .rate = rate};
    struct load_answer answer;

    if (send(load->fd, &order, sizeof order, MSG_NOSIGNAL) != (ssize_t)sizeof order ||
        recv(load->fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer) {
        fprintf(stderr, "load: its process has ended\n");
        return -1;
    }
    *before = answer.before;
    return answer.error == 0 ? 0 : -1;
}

void load_close(struct load *load)
{
    if (load->pid <= 0)
        return;
    /* Processes that were started later hold the descriptor too. */
    shutdown(load->fd, SHUT_RDWR);
    close(load->fd);
    waitpid(load->pid, NULL, 0);
    *load = (struct load){.fd = -1};
}
