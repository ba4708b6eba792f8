/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hop to a receiver of a failover group that delivers at once, and of one that delivers what a majority of the voters
 * has (bench/run availability):
 *
 *   majority CHANNEL CHANNEL TURNS
 *
 * Each group has three voters and the receiver, all in one thread, so that no process waits for a core. After a send
 * those members are polled that the message passes, until it is delivered: the receiver, and before it, where a majority
 * has to have it, the first backup. On hosts of their own the others would work at the same time. Both groups take turns.
 * Prints JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

enum { MEMBERS = 4, RECEIVER = 3, TURN = 100, TURNS_MAX = 10000 };

#define PAUSE_NS UINT64_C(100000)
#define BEAT_NS UINT64_C(5000000)
#define DETECT_NS UINT64_C(200000000)

struct group;

struct member {
    struct group *group;
    struct llm_context *context;
    struct llm_failover *failover;
};

struct group {
    struct member members[MEMBERS];
    struct llm_topic *topic; /* of the primary */
    int primary;             /* -1: none */
    enum llm_commit commit;
    uint64_t delivered_at; /* by the receiver; 0: not yet */
    uint64_t *hops_ns;
    int hops;
};

static void give_up(const char *text)
{
    (void)fprintf(stderr, "majority: %s\n", text);
    exit(1);
}

static void on_message(void *arg, uint64_t number, const struct llm_message *message)
{
    const struct member *member = arg;

    (void)number;
    (void)message;
    if (member == &member->group->members[RECEIVER])
        member->group->delivered_at = llm_clock();
}

static void on_role(void *arg, enum llm_role role, uint32_t term, uint64_t number)
{
    struct member *member = arg;

    (void)term;
    (void)number;
    if (role == LLM_ROLE_FENCED)
        give_up("the primary is fenced, as this process stood still");
    if (role != LLM_ROLE_PRIMARY)
        return;
    member->group->primary = (int)(member - member->group->members);
    if (llm_failover_topic(member->failover, "bench", &member->group->topic) != LLM_OK)
        give_up("no topic");
}

static void open_group(struct group *group, const char *channel, enum llm_commit commit, int turns)
{
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    struct llm_options channels;

    group->primary = -1;
    group->commit = commit;
    group->hops_ns = calloc((size_t)turns * TURN, sizeof *group->hops_ns);
    llm_options_init(&channels);
    strcpy(channels.stream, "bench");
    channels.linger_ns = 0;
    llm_failover_options_init(&options);
    options.voters = RECEIVER;
    options.beat_ns = BEAT_NS;
    options.detect_ns = DETECT_NS;
    options.commit = commit;
    llm_failover_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.role = on_role;
    for (int i = 0; i < MEMBERS; i++) {
        struct member *member = &group->members[i];

        member->group = group;
        handlers.arg = member;
        options.kind = i == RECEIVER ? LLM_MEMBER_RECEIVER : LLM_MEMBER_CANDIDATE;
        options.member = (uint32_t)i;
        if (group->hops_ns == NULL || llm_context_open(NULL, &member->context) != LLM_OK ||
            llm_failover_open(member->context, channel, &channels, &options, &handlers, &member->failover) !=
                LLM_OK)
            give_up("a member cannot be opened");
    }
}

/* The primary last: its message is on its way. */
static void poll_group(struct group *group)
{
    for (int i = 0; i < MEMBERS; i++)
        if (i != group->primary)
            (void)llm_poll(group->members[i].context);
    if (group->primary >= 0)
        (void)llm_poll(group->members[group->primary].context);
}

static void hop(struct group *group)
{
    const uint64_t until = llm_clock() + PAUSE_NS;
    uint64_t sent_at = 0;

    while (sent_at < until) {
        poll_group(group);
        sent_at = llm_clock();
    }
    group->delivered_at = 0;
    if (llm_send(group->topic, &sent_at, sizeof sent_at, LLM_SEND_NOW) != LLM_OK)
        give_up("a message cannot be sent");
    while (group->delivered_at == 0) {
        if (group->commit == LLM_COMMIT_BACKUP)
            (void)llm_poll(group->members[group->primary == 0 ? 1 : 0].context);
        (void)llm_poll(group->members[RECEIVER].context);
    }
    group->hops_ns[group->hops++] = group->delivered_at - sent_at;
}

static void print_hops(const char *name, const struct group *group)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < group->hops; i++)
        printf("%s%" PRIu64, i == 0 ? "" : ", ", group->hops_ns[i]);
    printf("]");
}

int main(int argc, char **argv)
{
    static struct group groups[2];
    const int turns = argc == 4 ? atoi(argv[3]) : 0;

    if (turns < 1 || turns > TURNS_MAX) {
        (void)fprintf(stderr, "usage: majority CHANNEL CHANNEL TURNS\n");
        return 2;
    }
    open_group(&groups[0], argv[1], LLM_COMMIT_SENT, turns);
    open_group(&groups[1], argv[2], LLM_COMMIT_BACKUP, turns);
    /* Voters that have just been opened do not count for as long as a detection takes. */
    for (const uint64_t until = llm_clock() + 4 * DETECT_NS;
         llm_clock() < until || groups[0].primary < 0 || groups[1].primary < 0;)
        for (int i = 0; i < 2; i++)
            poll_group(&groups[i]);
    for (int turn = 0; turn < turns; turn++)
        for (int which = 0; which < 2; which++)
            for (int i = 0; i < TURN; i++)
                hop(&groups[which]);
    printf("{");
    print_hops("sent_ns", &groups[0]);
    printf(", ");
    print_hops("majority_ns", &groups[1]);
    printf("}\n");
    return 0;
}
