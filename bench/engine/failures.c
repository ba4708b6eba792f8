/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of one host that are killed, or stopped and continued (bench/run availability):
 *
 *   failures CASE CHANNEL SNAPSHOTS TRIALS RATE BEAT_US DETECT_US SEED
 *
 * CASE hot-hot: two transmitters of the same messages and a receiver that merges them; one is killed and started again. The
 * receiver polls without pause, and has a processor for itself.
 * CASE takeover: a failover group of three; the primary is killed. CASE fenced: it is stopped until another one sends, then
 * continued. The processes note in shared memory when messages are delivered, by one clock. In front of each trial is a
 * window of the same length without one, the control; with hot-hot another one follows, in which the transmitter that is left
 * is alone. Prints JSON.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

/* Windows of a trial. */
enum { WINDOW_CONTROL, WINDOW_TRIAL, WINDOW_ALONE, WINDOWS_OF_A_TRIAL };

enum {
    PROCESSES = 3,
    TRIALS_MAX = 100000,
    WINDOWS = WINDOWS_OF_A_TRIAL * TRIALS_MAX + 1,
    LINES = 16,
    LINE_MAX = 200
};

#define MS UINT64_C(1000000)
#define TICK_NS UINT64_C(100000)
#define WINDOW_NS (40 * MS)
#define PATIENCE_NS (30000 * MS)
/* Transmitters of the same messages begin with one that is due so much later than they were started. */
#define AHEAD_NS (30 * MS)

/* Message: which one it is, and who sent it; of two transmitters of the same messages, nobody. */
struct stamp {
    uint32_t process;
    uint32_t life;
    uint64_t number;
};

/* Notes of a process. */
struct note {
    pid_t pid;
    _Atomic uint32_t lives;
    _Atomic int role;       /* enum llm_role; hot-hot: 1, a transmitter has sent something */
    _Atomic uint64_t first; /* hot-hot: number of the first message delivered */
    _Atomic uint64_t next;  /* number expected, or to be sent */
    _Atomic uint64_t sent, lost, twice, stale, refused, diverged;
    _Atomic uint64_t sender;      /* of the latest message: process and life */
    _Atomic uint64_t changed_at;  /* time of the first message of that sender */
    uint64_t silence_ns[WINDOWS]; /* longest, by window */
    _Atomic uint32_t lines;       /* number of lines logged; the latest are in log */
    char log[LINES][LINE_MAX];
};

static struct shared {
    _Atomic uint32_t window; /* 0: none */
    _Atomic uint64_t end;    /* hot-hot: number after the last message */
    uint64_t began_at;
    struct note notes[PROCESSES];
} * shared;

static struct {
    const char *channel, *snapshots;
    int trials;
    uint64_t rate, beat_ns, detect_ns;
} given;

static uint64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    (void)nanosleep(&time, NULL);
}

/* Prints where a process stands, and what it logged last. */
static void print_process(int index)
{
    const struct note *note = &shared->notes[index];

    (void)fprintf(stderr,
                  "process %d: life %" PRIu32 ", role %d, %" PRIu64
                  " is next, the latest sender is process %d in life %" PRIu32 "\n",
                  index, note->lives, note->role, note->next, (int)(note->sender >> 32) - 1,
                  (uint32_t)note->sender);
    for (uint32_t i = note->lines > LINES ? note->lines - LINES : 0; i < note->lines; i++)
        (void)fprintf(stderr, "process %d: %s\n", index, note->log[i % LINES]);
}

static void give_up(const char *text)
{
    (void)fprintf(stderr, "failures: %s\n", text);
    for (int i = 0; i < PROCESSES; i++)
        print_process(i);
    for (int i = 0; i < PROCESSES; i++)
        if (shared->notes[i].pid > 0)
            (void)kill(shared->notes[i].pid, SIGKILL);
    exit(1);
}

/* ------------------------------------------------------------------------------------------ all processes */

struct process {
    struct note *note;
    struct llm_context *context;
    struct llm_failover *member;
    struct llm_topic *topic;
    uint64_t delivered_at;
    bool joined;
    uint32_t
        superseded[PROCESSES]; /* latest life of each whose messages were followed by those of another one */
};

static uint32_t process_index(const struct process *process)
{
    return (uint32_t)(process->note - shared->notes);
}

static void deliver(struct process *process, uint64_t number, const struct llm_message *message)
{
    struct note *note = process->note;
    const uint64_t at = now_ns();
    const uint32_t window = shared->window;
    struct stamp stamp;
    uint64_t sender;

    if (message->size != sizeof stamp)
        return;
    memcpy(&stamp, message->data, sizeof stamp);
    sender = (uint64_t)(stamp.process + 1) << 32 | stamp.life;
    if (process->joined && number != note->next) {
        if (number < note->next)
            note->twice++;
        else
            note->lost += number - note->next;
    }
    if (process->delivered_at != 0 && at - process->delivered_at > note->silence_ns[window])
        note->silence_ns[window] = at - process->delivered_at;
    if (sender != note->sender) {
        if (note->sender != 0)
            process->superseded[(note->sender >> 32) - 1] = (uint32_t)note->sender;
        note->changed_at = at;
        note->sender = sender;
    }
    if (!process->joined)
        note->first = number;
    process->delivered_at = at;
    process->joined = true;
    if (number >= note->next)
        note->next = number + 1;
}

/* Notes log lines for give_up() only: they say that primaries are fenced, as is measured. */
static void note_log(void *arg, enum llm_level level, const char *text)
{
    struct note *note = arg;

    (void)level;
    (void)snprintf(note->log[note->lines % LINES], LINE_MAX, "%.3f s, life %" PRIu32 ": %s",
                   (double)(now_ns() - shared->began_at) / 1e9, note->lives, text);
    note->lines++;
}

static void open_context(struct process *process, enum llm_wait_mode wait)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.wait = wait;
    options.log = note_log;
    options.log_arg = process->note;
    if (llm_context_open(&options, &process->context) != LLM_OK)
        exit(3);
}

static int send_stamp(struct process *process, uint64_t number, unsigned flags)
{
    const struct stamp stamp = {process_index(process), process->note->lives, number};
    const struct stamp same = {0, 0, number};

    return llm_send(process->topic, process->member != NULL ? &stamp : &same, sizeof stamp, flags);
}

static void spawn(int index, void (*run)(struct process *process))
{
    struct process process = {.note = &shared->notes[index]};
    pid_t pid;

    process.note->role = LLM_ROLE_BACKUP;
    process.note->lives++;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(&process);
        _exit(0);
    }
    if (pid < 0)
        give_up("no process can be made");
    process.note->pid = pid;
}

/* Gives up if a process has ended that was not killed. */
static void check_processes(void)
{
    char text[100];
    int status, index = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);

    if (pid <= 0)
        return;
    while (index < PROCESSES - 1 && shared->notes[index].pid != pid)
        index++;
    (void)snprintf(text, sizeof text, "process %d ended by itself, with %s %d", index,
                   WIFSIGNALED(status) ? "signal" : "code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    give_up(text);
}

static void end_process(int index, int number)
{
    (void)kill(shared->notes[index].pid, number);
    (void)waitpid(shared->notes[index].pid, NULL, 0);
    shared->notes[index].pid = 0;
}

static void begin_window(int trial, int kind)
{
    shared->window = (uint32_t)(WINDOWS_OF_A_TRIAL * trial + kind + 1);
}

/* ------------------------------------------------------------------------------------------------ hot-hot */

/* Processors of the receiver, which polls without pause, and of all others. Empty if there is only one. */
static struct {
    cpu_set_t receiver, others;
} places;

static void find_places(void)
{
    cpu_set_t allowed;
    size_t cpu = CPU_SETSIZE - 1;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
        return;
    while (!CPU_ISSET(cpu, &allowed))
        cpu--;
    places.others = allowed;
    CPU_CLR(cpu, &places.others);
    CPU_SET(cpu, &places.receiver);
}

static void settle(const cpu_set_t *place)
{
    if (CPU_COUNT(place) > 0)
        (void)sched_setaffinity(0, sizeof *place, place);
}

static uint64_t due_ns(uint64_t number)
{
    return shared->began_at + number * 1000000000u / given.rate;
}

static void run_transmitter(struct process *process)
{
    struct llm_transmitter *transmitter;
    char channel[512];
    uint64_t number = (now_ns() + AHEAD_NS - shared->began_at) * given.rate / 1000000000u;

    settle(&places.others);
    open_context(process, LLM_WAIT_BLOCK);
    (void)snprintf(channel, sizeof channel, "%s%cstream=bench&stream_merge=1&stream_base=%" PRIu64,
                   given.channel, strchr(given.channel, '?') == NULL ? '?' : '&', number);
    if (llm_transmitter_open(process->context, channel, NULL, NULL, &transmitter) != LLM_OK ||
        llm_topic_open(transmitter, "bench", 0, &process->topic) != LLM_OK)
        exit(3);
    while (number < shared->end) {
        while (number < shared->end && due_ns(number) <= now_ns()) {
            if (send_stamp(process, number, LLM_SEND_MORE) != LLM_OK)
                break;
            number++;
            process->note->role = LLM_ROLE_PRIMARY;
        }
        (void)llm_transmitter_flush(transmitter);
        (void)llm_wait(process->context, TICK_NS);
    }
    (void)llm_transmitter_close(&transmitter);
}

static void on_merged(void *arg, const struct llm_message *message)
{
    deliver(arg, message->number, message);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct process *process = arg;

    process->note->diverged += event->kind == LLM_EVENT_DIVERGED;
}

static void run_receiver(struct process *process)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;
    char channel[512];

    /* Sessions of transmitters that were killed end soon, as so many are. */
    (void)snprintf(channel, sizeof channel, "%s%csession_timeout_ns=600000000", given.channel,
                   strchr(given.channel, '?') == NULL ? '?' : '&');
    settle(&places.receiver);
    open_context(process, LLM_WAIT_SPIN);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = process;
    handlers.message = on_merged;
    handlers.event = on_event;
    if (llm_receiver_open(process->context, channel, NULL, &handlers, &receiver) != LLM_OK)
        exit(3);
    while (process->note->next < shared->end)
        (void)llm_poll(process->context);
}

static bool is_sending(int index)
{
    return shared->notes[index].role == LLM_ROLE_PRIMARY;
}

static void hot_hot(void)
{
    enum { RECEIVER = 2 };
    struct note *receiver = &shared->notes[RECEIVER];

    shared->end = UINT64_MAX;
    find_places();
    settle(&places.others);
    spawn(RECEIVER, run_receiver);
    spawn(0, run_transmitter);
    spawn(1, run_transmitter);
    for (int trial = 0; trial < given.trials; trial++) {
        const int victim = rand() % 2;
        const uint64_t until = now_ns() + PATIENCE_NS, before = receiver->next;

        while (!is_sending(0) || !is_sending(1) || receiver->next == before) {
            check_processes();
            if (now_ns() > until)
                give_up("a transmitter does not begin, or nothing is delivered");
        }
        /* Both sessions are followed. */
        pause_ns(WINDOW_NS);
        begin_window(trial, WINDOW_CONTROL);
        pause_ns((uint64_t)rand() % (WINDOW_NS / 4));
        pause_ns(WINDOW_NS);
        begin_window(trial, WINDOW_TRIAL);
        pause_ns((uint64_t)rand() % (WINDOW_NS / 4));
        end_process(victim, SIGKILL);
        pause_ns(WINDOW_NS);
        begin_window(trial, WINDOW_ALONE);
        pause_ns((uint64_t)rand() % (WINDOW_NS / 4));
        pause_ns(WINDOW_NS);
        shared->window = 0;
        spawn(victim, run_transmitter);
        if (trial % 100 == 99)
            (void)fprintf(stderr, "hot-hot: %d of %d kills\n", trial + 1, given.trials);
    }
    shared->end = (now_ns() + 2 * AHEAD_NS - shared->began_at) * given.rate / 1000000000u;
    for (const uint64_t until = now_ns() + PATIENCE_NS; receiver->next < shared->end && now_ns() < until;)
        pause_ns(MS);
    receiver->lost += shared->end - receiver->next;
    receiver->sent = shared->end - receiver->first;
}

/* ------------------------------------------------------------------------------------------ failover groups */

static void on_message(void *arg, uint64_t number, const struct llm_message *message)
{
    struct process *process = arg;
    struct stamp stamp;

    if (message->size == sizeof stamp) {
        memcpy(&stamp, message->data, sizeof stamp);
        process->note->stale += stamp.life <= process->superseded[stamp.process];
    }
    deliver(process, number, message);
}

static void on_role(void *arg, enum llm_role role, uint32_t term, uint64_t number)
{
    struct process *process = arg;
    struct note *note = process->note;
    char line[LINE_MAX / 2];

    (void)snprintf(line, sizeof line, "role %d in term %" PRIu32 ", message %" PRIu64, (int)role, term,
                   number);
    note_log(note, LLM_LEVEL_INFO, line);
    if (role == LLM_ROLE_PRIMARY) {
        if (process->joined && number != note->next)
            note->lost++;
        note->next = number;
        process->joined = true;
        note->changed_at = now_ns();
        note->sender = (uint64_t)(process_index(process) + 1) << 32 | note->lives;
        if (llm_failover_topic(process->member, "bench", &process->topic) != LLM_OK)
            exit(3);
    }
    note->role = (int)role;
}

static int on_save(void *arg, uint64_t number, struct llm_snapshot *snapshot)
{
    (void)arg;
    return llm_snapshot_write(snapshot, &number, sizeof number);
}

static int on_restore(void *arg, uint64_t number, const void *data, size_t size)
{
    struct process *process = arg;

    (void)data;
    if (size != sizeof number)
        return LLM_EINVAL;
    process->joined = true;
    process->note->next = number;
    return LLM_OK;
}

static void join(struct process *process)
{
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;
    struct llm_options channel;

    process->joined = false;
    process->delivered_at = 0;
    memset(process->superseded, 0, sizeof process->superseded);
    process->note->sender = 0;
    process->note->next = 0;
    llm_options_init(&channel);
    strcpy(channel.stream, "bench");
    channel.linger_ns = 0;
    llm_failover_options_init(&options);
    options.voters = PROCESSES;
    options.member = process_index(process);
    options.beat_ns = given.beat_ns;
    options.detect_ns = given.detect_ns;
    options.snapshot_channel = given.snapshots;
    llm_failover_handlers_init(&handlers);
    handlers.arg = process;
    handlers.message = on_message;
    handlers.role = on_role;
    handlers.save = on_save;
    handlers.restore = on_restore;
    if (llm_failover_open(process->context, given.channel, &channel, &options, &handlers, &process->member) !=
        LLM_OK)
        exit(3);
}

static void run_member(struct process *process)
{
    struct note *note = process->note;
    uint64_t due = now_ns();

    open_context(process, LLM_WAIT_BLOCK);
    join(process);
    for (;;) {
        (void)llm_wait(process->context, TICK_NS);
        if (note->role == LLM_ROLE_FENCED) {
            (void)llm_failover_close(&process->member);
            note->lives++;
            note->role = LLM_ROLE_BACKUP;
            join(process);
        }
        if (note->role != LLM_ROLE_PRIMARY) {
            due = now_ns();
            continue;
        }
        /* A process that stood still does not make up for it. */
        if (now_ns() > due + 10 * MS)
            due = now_ns();
        for (; due <= now_ns(); due += 1000000000u / given.rate) {
            const int error = send_stamp(process, note->next, 0);

            note->refused += error == LLM_EFENCED;
            if (error != LLM_OK)
                break;
            note->sent++;
            note->next++;
        }
    }
}

static int primary(int but)
{
    for (int i = 0; i < PROCESSES; i++)
        if (i != but && shared->notes[i].role == LLM_ROLE_PRIMARY)
            return i;
    return -1;
}

/* Waits until another member than `but` is the primary and the others have messages of it. Returns it. */
static int goes_on(int but)
{
    for (const uint64_t until = now_ns() + PATIENCE_NS; now_ns() < until; pause_ns(TICK_NS)) {
        const int who = primary(but);
        bool all = who >= 0;

        check_processes();
        for (int i = 0; all && i < PROCESSES; i++)
            all = i == but || i == who ||
                  shared->notes[i].sender == ((uint64_t)(who + 1) << 32 | shared->notes[who].lives);
        if (all)
            return who;
    }
    give_up("nobody leads, or its messages do not arrive");
    return -1;
}

static void failover_trials(bool stops)
{
    static uint64_t took_ns[TRIALS_MAX];

    for (int i = 0; i < PROCESSES; i++)
        spawn(i, run_member);
    for (int trial = 0; trial < given.trials; trial++) {
        int victim, next;
        uint64_t killed_at;
        uint32_t lives;

        (void)goes_on(-1);
        /* A voter that was started again votes after that. */
        pause_ns(2 * given.detect_ns + WINDOW_NS);
        begin_window(trial, WINDOW_CONTROL);
        pause_ns(WINDOW_NS);
        victim = goes_on(-1);
        begin_window(trial, WINDOW_TRIAL);
        pause_ns((uint64_t)rand() % (WINDOW_NS / 4));
        lives = shared->notes[victim].lives;
        killed_at = now_ns();
        if (stops)
            (void)kill(shared->notes[victim].pid, SIGSTOP);
        else
            end_process(victim, SIGKILL);
        shared->notes[victim].role = stops ? shared->notes[victim].role : -1;
        next = goes_on(victim);
        for (int i = 0; i < PROCESSES; i++)
            /* A process that stood still may have been replaced just before. */
            if (i != victim && i != next && shared->notes[i].changed_at > killed_at)
                took_ns[trial] = shared->notes[i].changed_at - killed_at;
        pause_ns(WINDOW_NS / 4);
        shared->window = 0;
        if (stops) {
            (void)kill(shared->notes[victim].pid, SIGCONT);
            for (const uint64_t until = now_ns() + PATIENCE_NS; shared->notes[victim].lives == lives;)
                if (now_ns() > until)
                    give_up("a primary that was stopped and continued is not fenced");
        } else {
            spawn(victim, run_member);
        }
        if (trial % 100 == 99)
            (void)fprintf(stderr, "%s: %d of %d trials\n", stops ? "fenced" : "takeover", trial + 1,
                          given.trials);
    }
    printf("{\"took_ns\": [");
    for (int trial = 0; trial < given.trials; trial++)
        printf("%s%" PRIu64, trial == 0 ? "" : ", ", took_ns[trial]);
    printf("], ");
}

/* ------------------------------------------------------------------------------------------------ results */

/* Prints the longest silences of windows of a kind, as the worst process has it. */
static void print_silences(const char *name, int kind)
{
    printf("\"%s\": [", name);
    for (int trial = 0; trial < given.trials; trial++) {
        const int window = WINDOWS_OF_A_TRIAL * trial + kind + 1;
        uint64_t longest = 0;

        for (int i = 0; i < PROCESSES; i++)
            if (shared->notes[i].silence_ns[window] > longest)
                longest = shared->notes[i].silence_ns[window];
        printf("%s%" PRIu64, trial == 0 ? "" : ", ", longest);
    }
    printf("], ");
}

static void print_results(void)
{
    uint64_t sent = 0, lost = 0, twice = 0, stale = 0, refused = 0, diverged = 0;

    for (int i = 0; i < PROCESSES; i++) {
        const struct note *note = &shared->notes[i];

        sent += note->sent;
        lost += note->lost;
        twice += note->twice;
        stale += note->stale;
        refused += note->refused;
        diverged += note->diverged;
    }
    print_silences("control_ns", WINDOW_CONTROL);
    print_silences("alone_ns", WINDOW_ALONE);
    print_silences("silence_ns", WINDOW_TRIAL);
    printf("\"trials\": %d, \"sent\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"twice\": %" PRIu64
           ", \"stale\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"diverged\": %" PRIu64 "}\n",
           given.trials, sent, lost, twice, stale, refused, diverged);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (argc != 9 ||
        (strcmp(what, "hot-hot") != 0 && strcmp(what, "takeover") != 0 && strcmp(what, "fenced") != 0)) {
        (void)fprintf(
            stderr,
            "usage: failures hot-hot|takeover|fenced CHANNEL SNAPSHOTS TRIALS RATE BEAT_US DETECT_US SEED\n");
        return 2;
    }
    given.channel = argv[2];
    given.snapshots = argv[3];
    given.trials = atoi(argv[4]);
    given.rate = strtoull(argv[5], NULL, 10);
    given.beat_ns = strtoull(argv[6], NULL, 10) * 1000;
    given.detect_ns = strtoull(argv[7], NULL, 10) * 1000;
    srand((unsigned)atoi(argv[8]));
    if (given.trials < 1 || given.trials > TRIALS_MAX || given.rate == 0)
        return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    shared->began_at = now_ns();
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (strcmp(what, "hot-hot") == 0) {
        hot_hot();
        printf("{");
    } else {
        failover_trials(strcmp(what, "fenced") == 0);
    }
    for (int i = 0; i < PROCESSES; i++)
        if (shared->notes[i].pid > 0)
            (void)kill(shared->notes[i].pid, SIGKILL);
    while (wait(NULL) > 0)
        ;
    print_results();
    return 0;
}
