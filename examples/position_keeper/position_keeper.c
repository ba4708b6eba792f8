/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Position keeper: the positions of some instruments, kept by three processes of which any may be killed.
 *
 *   position_keeper MEMBER [FILLS [CHANNEL [SNAPSHOTS]]]
 *
 * CHANNEL and SNAPSHOTS are groups of the loopback interface if they are not given.
 *
 * Start three, with the MEMBERs 0, 1 and 2. One of them is the primary: it makes a fill every millisecond, until FILLS
 * (10,000 if not given) were made, and sends it. The others apply what a majority of the three has. When the primary is
 * killed, another one goes on with the next fill. One that is started again gets the positions of another one, with the number of
 * the fill that comes next, and follows from there.
 *
 * Each prints a line for every 1,000 fills, with a checksum of all positions: after the same fill it is the same
 * everywhere. Ends after the last fill, when all members that are alive may have it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

enum { MEMBERS = 3, INSTRUMENTS = 64, LINE = 1000 };

#define FILL_NS UINT64_C(1000000)
/* Time for which a process of a busy machine may stand still without being taken for dead. */
#define DETECT_NS UINT64_C(300000000)
/* After the last fill: for members that were started again, and have to catch up. */
#define LINGER_NS UINT64_C(1000000000)

struct fill {
    uint32_t instrument;
    int32_t quantity;
    int64_t price;
};

struct position {
    int64_t quantity;
    int64_t paid;
};

struct keeper {
    struct llm_context *context;
    struct llm_failover *member;
    struct llm_topic *fills; /* NULL: this is not the primary */
    uint32_t number;
    const char *channel;
    const char *snapshots;
    struct position positions[INSTRUMENTS];
    uint64_t next; /* number of the next fill */
    bool fenced;
};

static void print(const struct keeper *keeper)
{
    uint64_t sum = 0;

    for (int i = 0; i < INSTRUMENTS; i++)
        sum = (sum ^ (uint64_t)keeper->positions[i].quantity) * 31 + (uint64_t)keeper->positions[i].paid;
    printf("fills %" PRIu64 ": %016" PRIx64 "\n", keeper->next, sum);
    (void)fflush(stdout);
}

static void apply(struct keeper *keeper, uint64_t number, const struct fill *fill)
{
    struct position *position = &keeper->positions[fill->instrument % INSTRUMENTS];

    position->quantity += fill->quantity;
    position->paid += fill->quantity * fill->price;
    keeper->next = number + 1;
    if (keeper->next % LINE == 0)
        print(keeper);
}

static void on_message(void *arg, uint64_t number, const struct llm_message *message)
{
    struct fill fill;

    if (message->size != sizeof fill)
        return;
    memcpy(&fill, message->data, sizeof fill);
    apply(arg, number, &fill);
}

/* Positions without these fills would be wrong: this process ends, and is to be started again. */
static void on_gap(void *arg, uint64_t first, uint64_t last)
{
    (void)arg;
    printf("fills %" PRIu64 " to %" PRIu64 " are lost\n", first, last);
    exit(3);
}

static void on_role(void *arg, enum llm_role role, uint32_t term, uint64_t number)
{
    struct keeper *keeper = arg;

    keeper->fills = NULL;
    keeper->fenced = role == LLM_ROLE_FENCED;
    if (role != LLM_ROLE_PRIMARY)
        return;
    printf("member %" PRIu32 " is the primary, of term %" PRIu32 ", from fill %" PRIu64 " on\n",
           keeper->number, term, number);
    (void)fflush(stdout);
    if (llm_failover_topic(keeper->member, "fills", &keeper->fills) != LLM_OK)
        exit(3);
}

static int on_save(void *arg, uint64_t number, struct llm_snapshot *snapshot)
{
    struct keeper *keeper = arg;

    (void)number;
    return llm_snapshot_write(snapshot, keeper->positions, sizeof keeper->positions);
}

static int on_restore(void *arg, uint64_t number, const void *data, size_t size)
{
    struct keeper *keeper = arg;

    if (size != sizeof keeper->positions)
        return LLM_EINVAL;
    memcpy(keeper->positions, data, size);
    keeper->next = number;
    printf("member %" PRIu32 " has the positions before fill %" PRIu64 " of another one\n", keeper->number,
           number);
    (void)fflush(stdout);
    return LLM_OK;
}

static int join(struct keeper *keeper)
{
    struct llm_failover_options options;
    struct llm_failover_handlers handlers;

    memset(keeper->positions, 0, sizeof keeper->positions);
    keeper->next = 0;
    keeper->fenced = false;
    llm_failover_options_init(&options);
    options.voters = MEMBERS;
    options.member = keeper->number;
    options.detect_ns = DETECT_NS;
    options.beat_ns = DETECT_NS / 50;
    options.commit = LLM_COMMIT_BACKUP;
    options.snapshot_channel = keeper->snapshots;
    llm_failover_handlers_init(&handlers);
    handlers.arg = keeper;
    handlers.message = on_message;
    handlers.gap = on_gap;
    handlers.role = on_role;
    handlers.save = on_save;
    handlers.restore = on_restore;
    return llm_failover_open(keeper->context, keeper->channel, NULL, &options, &handlers, &keeper->member);
}

/* Makes a fill and sends it. It counts only if it was sent: a primary that was superseded is refused. */
static void trade(struct keeper *keeper)
{
    const struct fill fill = {(uint32_t)rand() % INSTRUMENTS, rand() % 201 - 100, 10000 + rand() % 100};

    if (llm_send(keeper->fills, &fill, sizeof fill, 0) == LLM_OK)
        apply(keeper, keeper->next, &fill);
}

static int run(struct keeper *keeper, uint64_t fills)
{
    uint64_t trade_at = 0, end = 0;

    while (end == 0 || llm_clock() < end) {
        const int error = llm_wait(keeper->context, FILL_NS / 2);
        const uint64_t now = llm_clock();

        if (error < 0)
            return error;
        if (keeper->fenced) {
            printf("member %" PRIu32 " is fenced, and begins again\n", keeper->number);
            (void)llm_failover_close(&keeper->member);
            if (join(keeper) != LLM_OK)
                return LLM_ESYSTEM;
        }
        if (keeper->fills != NULL && keeper->next < fills && now >= trade_at) {
            trade(keeper);
            trade_at = now + FILL_NS;
        }
        /* The primary ends only when others have the last fill. */
        if (end == 0 && llm_failover_committed(keeper->member) >= fills && keeper->next >= fills)
            end = now + LINGER_NS;
    }
    return LLM_OK;
}

int main(int argc, char **argv)
{
    static struct keeper keeper = {.channel =
                                       "udp://239.192.1.8:5008?interface=lo&stream=fills&history_bytes=4M",
                                   .snapshots = "udp://239.192.1.8:5009?interface=lo"};
    struct llm_context_options options;
    uint64_t fills = 10000;
    int error;

    if (argc < 2 || argc > 5) {
        (void)fprintf(stderr, "usage: position_keeper MEMBER [FILLS [CHANNEL [SNAPSHOTS]]]\n");
        return 2;
    }
    keeper.number = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        fills = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        keeper.channel = argv[3];
    if (argc > 4)
        keeper.snapshots = argv[4];
    srand((unsigned)llm_clock());
    /* Three processes of one machine: none takes a core for itself. */
    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    if (llm_context_open(&options, &keeper.context) != LLM_OK)
        return 1;
    error = join(&keeper);
    if (error == LLM_OK)
        error = run(&keeper, fills);
    if (error == LLM_OK)
        printf("member %" PRIu32 " is complete\n", keeper.number);
    (void)llm_failover_close(&keeper.member);
    (void)llm_context_close(&keeper.context);
    return error == LLM_OK ? 0 : 1;
}
