/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tail.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <llm/llm.h>

enum { TAIL_SAMPLES = 32, TAIL_STALLS = 65536, TAIL_STALL_NS = 5000 };

/* An interval between two turns of the loop, of at least TAIL_STALL_NS. */
struct tail_stall {
    uint64_t from, to;
    uint32_t yields, preemptions, faults, moves, messages;
};

static struct tail {
    bool on;
    struct tail_sample worst[TAIL_SAMPLES];
    uint32_t sample_count;
    struct tail_stall *stalls; /* the latest TAIL_STALLS */
    uint64_t stall_count;
    uint64_t turned_at;
    int cpu;
    struct rusage usage; /* after the latest stall */
} tail;

static uint64_t tail_latency(const struct tail_sample *sample)
{
    return sample->back_at - sample->due_at;
}

void tail_start(void)
{
    if (tail.stalls == NULL)
        tail.stalls = control_memory(TAIL_STALLS, sizeof *tail.stalls);
    tail.on = true;
    tail.sample_count = 0;
    tail.stall_count = 0;
    tail.cpu = sched_getcpu();
    (void)getrusage(RUSAGE_SELF, &tail.usage);
    tail.turned_at = llm_clock();
}

bool tail_is_on(void)
{
    return tail.on;
}

void tail_turn(int count)
{
    const uint64_t now = llm_clock(), from = tail.turned_at;
    const struct rusage before = tail.usage;
    const int cpu = tail.cpu;

    tail.turned_at = now;
    if (now - from < TAIL_STALL_NS)
        return;
    (void)getrusage(RUSAGE_SELF, &tail.usage);
    tail.cpu = sched_getcpu();
    tail.stalls[tail.stall_count++ % TAIL_STALLS] = (struct tail_stall){
        .from = from,
        .to = now,
        .yields = (uint32_t)(tail.usage.ru_nvcsw - before.ru_nvcsw),
        .preemptions = (uint32_t)(tail.usage.ru_nivcsw - before.ru_nivcsw),
        .faults =
            (uint32_t)(tail.usage.ru_minflt + tail.usage.ru_majflt - before.ru_minflt - before.ru_majflt),
        .moves = cpu != tail.cpu,
        .messages = (uint32_t)count,
    };
}

/* Replaces the least of the worst samples. */
void tail_add(const struct tail_sample *sample)
{
    uint32_t least = 0;

    if (tail.sample_count < TAIL_SAMPLES) {
        tail.worst[tail.sample_count++] = *sample;
        return;
    }
    for (uint32_t i = 1; i < TAIL_SAMPLES; i++)
        if (tail_latency(&tail.worst[i]) < tail_latency(&tail.worst[least]))
            least = i;
    if (tail_latency(sample) > tail_latency(&tail.worst[least]))
        tail.worst[least] = *sample;
}

static void tail_json(const uint64_t *numbers, size_t count)
{
    json_begin(NULL, '[');
    for (size_t i = 0; i < count; i++)
        json_number(NULL, (double)numbers[i]);
    json_end(']');
}

void tail_on_worst(const struct control *request)
{
    (void)request;
    json_open();
    json_begin("samples", '[');
    for (uint32_t i = 0; i < tail.sample_count; i++) {
        const struct tail_sample *sample = &tail.worst[i];

        tail_json(
            (uint64_t[]){sample->due_at, sample->sent_at, sample->arrived_at, sample->back_at, sample->from},
            5);
    }
    json_end(']');
    json_close();
}

static uint64_t tail_overlap(const struct tail_stall *stall, uint64_t from, uint64_t to)
{
    const uint64_t begin = stall->from > from ? stall->from : from, end = stall->to < to ? stall->to : to;

    return begin < end ? end - begin : 0;
}

static void tail_json_stall(uint64_t from, uint64_t to)
{
    const uint64_t count = tail.stall_count < TAIL_STALLS ? tail.stall_count : TAIL_STALLS;
    const struct tail_stall *found = &(struct tail_stall){0};

    for (uint64_t i = 0; i < count; i++)
        if (tail_overlap(&tail.stalls[i], from, to) > tail_overlap(found, from, to))
            found = &tail.stalls[i];
    tail_json((uint64_t[]){tail_overlap(found, from, to), found->yields, found->preemptions, found->faults,
                           found->moves, found->messages},
              6);
}

void tail_on_stalls(const struct control *request)
{
    const char *text = control_text(request, "in", "");
    uint64_t from, to;
    int used;

    json_open();
    json_begin("stalls", '[');
    for (; sscanf(text, "%" SCNu64 "-%" SCNu64 "%n", &from, &to, &used) == 2;
         text += used + (text[used] == ','))
        tail_json_stall(from, to);
    json_end(']');
    json_close();
}
