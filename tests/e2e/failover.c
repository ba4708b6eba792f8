/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failover group of processes of which the primary is killed, or stopped and continued, at random:
 *
 *   e2e_failover CHANNELS TRIALS [SEED [commit]]
 *
 * CHANNELS: the channel of all members, or one for each, separated by spaces. One with `PID:` before it is opened in the network
 * namespace of that process. commit: members deliver what a majority of the voters has.
 *
 * Each process is a member, sends while it is the primary, and notes what it is given in shared memory. After each
 * trial the notes are compared: no number is missing or given twice, and every member has the same message of it.
 * Prints JSON.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../patience.h"

enum { MEMBERS = 4, VOTERS = 3, NUMBERS = 1 << 20, PROGRESS = 30, DETECT_MS = 400, DISTURBED_MAX = 20 };

struct note {
    uint64_t values[NUMBERS]; /* given, by number; 0: none */
    uint64_t next;
    uint64_t errors;
    uint64_t lives;
    int role; /* enum llm_role; -1: not open */
    pid_t pid;
};

static struct note *notes;
static const char *channels[MEMBERS];
static enum llm_commit commit;

struct member {
    struct note *note;
    struct llm_failover *failover;
    struct llm_topic *topic;
    uint64_t value;
    bool joined;
};

static void wrong(struct note *note, const char *text, uint64_t number)
{
    (void)fprintf(stderr, "member %d: number %" PRIu64 " %s\n", (int)(note - notes), number, text);
    note->errors++;
}

static void on_message(void *arg, uint64_t number, const struct llm_message *message)
{
    struct member *member = arg;
    struct note *note = member->note;
    uint64_t value;

    if (number >= NUMBERS || message->size != sizeof value)
        abort();
    memcpy(&value, message->data, sizeof value);
    if (member->joined && number != note->next)
        wrong(note, number < note->next ? "given twice" : "given after a gap", number);
    if (note->values[number] != 0 && note->values[number] != value)
        wrong(note, "is another message than in an earlier life", number);
    note->values[number] = value;
    note->next = number + 1;
    member->joined = true;
}

static void on_gap(void *arg, uint64_t first, uint64_t last)
{
    const struct member *member = arg;

    (void)last;
    wrong(member->note, "is missing", first);
}

static void on_role(void *arg, enum llm_role role, uint32_t term, uint64_t number)
{
    struct member *member = arg;

    (void)term;
    if (role == LLM_ROLE_PRIMARY) {
        if (member->joined && number != member->note->next)
            wrong(member->note, "is not the next one of the new primary", number);
        member->joined = true;
        member->note->next = number;
        if (llm_failover_topic(member->failover, "orders", &member->topic) != LLM_OK)
            abort();
    }
    member->note->role = (int)role;
}

/* Enters the network namespace of the channel, if it names one. Returns the channel without that. */
static const char *member_enter(const char *channel)
{
    char path[64], *rest;
    const unsigned long pid = strtoul(channel, &rest, 10);
    int fd;

    if (rest == channel)
        return channel;
    (void)snprintf(path, sizeof path, "/proc/%lu/ns/net", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*rest != ':' || fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        perror(path);
        exit(3);
    }
    (void)close(fd);
    return rest + 1;
}

static void member_open(struct llm_context *context, const char *channel, struct member *member)
{
    const uint32_t number = (uint32_t)(member->note - notes);
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    struct llm_options opened;

    llm_options_init(&opened);
    strcpy(opened.stream, "orders");
    opened.history_bytes = 8 << 20;
    opened.linger_ns = 0;
    llm_failover_options_init(&options);
    options.voters = VOTERS;
    options.member = number;
    options.kind = number < VOTERS ? LLM_MEMBER_CANDIDATE : LLM_MEMBER_RECEIVER;
    options.beat_ns = 5000000;
    options.commit = commit;
    options.detect_ns = patience(DETECT_MS) * UINT64_C(1000000);
    llm_failover_handlers_init(&handlers);
    handlers.arg = member;
    handlers.message = on_message;
    handlers.gap = on_gap;
    handlers.role = on_role;
    if (llm_failover_open(context, channel, &opened, &options, &handlers, &member->failover) != LLM_OK)
        exit(3);
    member->note->lives++;
    member->note->role = LLM_ROLE_BACKUP;
}

/* Sends the next message, of a value that no other one has. */
static void member_send(struct member *member)
{
    const uint64_t value = member->value + 1;

    if (llm_send(member->topic, &value, sizeof value, 0) != LLM_OK)
        return;
    member->value = value;
    member->note->next++;
}

static void member_run(int number)
{
    struct member member = {.note = &notes[number]};
    const char *channel = member_enter(channels[number]);
    struct llm_context *context;
    struct llm_context_options options;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    llm_context_options_init(&options);
    if (llm_context_open(&options, &context) != LLM_OK)
        exit(3);
    member_open(context, channel, &member);
    member.value = (uint64_t)(number + 1) << 56 | member.note->lives << 40;
    for (;;) {
        (void)llm_wait(context, 1000000);
        if (member.note->role == LLM_ROLE_PRIMARY && member.note->next < NUMBERS) {
            member_send(&member);
        } else if (member.note->role == LLM_ROLE_FENCED) {
            (void)llm_failover_close(&member.failover);
            member.joined = false;
            member_open(context, channel, &member);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- the trials */

static uint64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void spawn(int number)
{
    const pid_t pid = fork();

    if (pid == 0)
        member_run(number);
    if (pid < 0)
        exit(3);
    notes[number].pid = pid;
}

/* Returns the primary other than `but`; -1: none. */
static int primary(int but)
{
    for (int i = 0; i < VOTERS; i++)
        if (i != but && *(volatile int *)&notes[i].role == LLM_ROLE_PRIMARY)
            return i;
    return -1;
}

/* Times that voters other than `but` were opened. */
static uint64_t lives_but(int but)
{
    uint64_t lives = 0;

    for (int i = 0; i < VOTERS; i++)
        lives += i == but ? 0 : *(volatile uint64_t *)&notes[i].lives;
    return lives;
}

/*
 * Waits until another member than `but` is the primary, and the others have some messages of it. False: too long, or
 * delivery is by majority and a voter was fenced and opened again since they had so many lives. That one forgot what it had, and while
 * another one is away nobody is elected.
 */
static bool goes_on(int but, uint64_t lives)
{
    const uint64_t until = now_ns() + patience(30) * UINT64_C(1000000000);
    uint64_t from = 0;

    while (now_ns() < until && (but < 0 || commit == LLM_COMMIT_SENT || lives_but(but) == lives)) {
        const int who = primary(but);
        bool all = who >= 0;

        (void)usleep(500);
        if (who < 0)
            continue;
        if (from == 0)
            from = *(volatile uint64_t *)&notes[who].next;
        for (int i = 0; i < MEMBERS; i++)
            all = all && (i == but || *(volatile uint64_t *)&notes[i].next >= from + PROGRESS);
        if (all)
            return true;
    }
    return false;
}

static uint64_t compare(void)
{
    uint64_t different = 0;

    for (uint64_t number = 0; number < NUMBERS; number++) {
        uint64_t value = 0;

        for (int i = 0; i < MEMBERS; i++) {
            const uint64_t other = notes[i].values[number];

            different += value != 0 && other != 0 && other != value;
            value = value == 0 ? other : value;
        }
    }
    return different;
}

/*
 * Waits until the group goes on and, if delivery is by majority, until no voter was opened again for so long that all count. False: too
 * long.
 */
static bool settles(void)
{
    const uint64_t until = now_ns() + patience(60) * UINT64_C(1000000000);
    uint64_t lives;

    do {
        lives = lives_but(-1);
        if (commit == LLM_COMMIT_BACKUP)
            (void)usleep((unsigned)patience(DETECT_MS) * 1500);
        if (!goes_on(-1, 0))
            return false;
    } while (commit == LLM_COMMIT_BACKUP && lives != lives_but(-1) && now_ns() < until);
    return lives == lives_but(-1) || commit == LLM_COMMIT_SENT;
}

enum outcome { FAILED, DISTURBED, DONE };

/* Kills the primary, or stops it and continues it when another one has taken over. */
static enum outcome trial(bool kills)
{
    enum outcome outcome = DONE;
    uint64_t lives, others;
    int victim;

    /* A primary that the system did not run for a while has been fenced: another one follows. */
    do {
        if (!settles())
            return FAILED;
        victim = primary(-1);
    } while (victim < 0);
    lives = notes[victim].lives;
    others = lives_but(victim);
    if (kill(notes[victim].pid, kills ? SIGKILL : SIGSTOP) != 0)
        return FAILED;
    if (kills) {
        (void)waitpid(notes[victim].pid, NULL, 0);
        notes[victim].role = -1;
    }
    if (!goes_on(victim, others)) {
        if (commit == LLM_COMMIT_SENT || lives_but(victim) == others)
            return FAILED;
        outcome = DISTURBED;
    }
    if (kills)
        spawn(victim);
    else
        (void)kill(notes[victim].pid, SIGCONT);
    for (const uint64_t until = now_ns() + patience(30) * UINT64_C(1000000000);
         outcome == DONE && *(volatile uint64_t *)&notes[victim].lives == lives; (void)usleep(500))
        if (now_ns() > until)
            return FAILED;
    return goes_on(-1, 0) ? outcome : FAILED;
}

/* One channel is that of all members. */
static bool set_channels(char *text)
{
    int count = 0;

    for (char *name = strtok(text, " "); name != NULL && count < MEMBERS; name = strtok(NULL, " "))
        channels[count++] = name;
    for (int i = count; count == 1 && i < MEMBERS; i++)
        channels[i] = channels[0];
    return count == 1 || count == MEMBERS;
}

/* Files that killed members left in shared memory are removed by the next transmitter on the channel. */
static void remove_files(void)
{
    struct llm_transmitter *transmitter;
    struct llm_context *context;

    if (strncmp(channels[0], "shm:", 4) != 0 || llm_context_open(NULL, &context) != LLM_OK)
        return;
    (void)llm_transmitter_open(context, channels[0], NULL, NULL, &transmitter);
    (void)llm_context_close(&context);
}

int main(int argc, char **argv)
{
    uint64_t errors = 0, different;
    int trials, done = 0, disturbed = 0;

    if (argc < 3 || !set_channels(argv[1])) {
        (void)fprintf(stderr, "usage: e2e_failover CHANNELS TRIALS [SEED [commit]]\n");
        return 2;
    }
    trials = atoi(argv[2]);
    srandom(argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)getpid());
    commit = argc > 4 && strcmp(argv[4], "commit") == 0 ? LLM_COMMIT_BACKUP : LLM_COMMIT_SENT;
    notes = mmap(NULL, MEMBERS * sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED)
        return 3;
    for (int i = 0; i < MEMBERS; i++) {
        notes[i].role = -1;
        spawn(i);
    }
    while (done < trials && disturbed < DISTURBED_MAX) {
        enum outcome outcome;

        (void)usleep((unsigned)random() % 50000);
        outcome = trial(random() % 2 == 0);
        if (outcome == FAILED)
            break;
        done += outcome == DONE;
        disturbed += outcome == DISTURBED;
    }
    for (int i = 0; i < MEMBERS; i++)
        (void)kill(notes[i].pid, SIGKILL);
    while (wait(NULL) > 0)
        ;
    remove_files();
    different = compare();
    for (int i = 0; i < MEMBERS; i++)
        errors += notes[i].errors;
    printf("{\"trials\": %d, \"disturbed\": %d, \"messages\": %" PRIu64 ", \"errors\": %" PRIu64
           ", \"different\": %" PRIu64 "}\n",
           done, disturbed, notes[MEMBERS - 1].next, errors, different);
    return done == trials && errors == 0 && different == 0 ? 0 : 1;
}
