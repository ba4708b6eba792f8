/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory transport: control operations. */
#define _GNU_SOURCE
#include "shm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/clock.h"

enum {
    SHM_MTU_MIN = 576,
    SHM_MTU_LEAST = 9000, /* smallest default packet size */
    SHM_MTU_MOST = 32768, /* largest default packet size */
    /* The default size grows beyond the smallest while the history has room for this many packets. */
    SHM_HISTORY_PACKETS = 128,
    SHM_SLOTS_WARM = 32,
};

/* ----------------------------------------------------------------------------------------- open and close */

/* Places slots, and touches those at the top of the stack, which are used again and again. */
static void control_slots(struct lli_shm_slots *slots, uint32_t first, uint8_t *base, uint32_t stride,
                          uint32_t warm_bytes)
{
    *slots = (struct lli_shm_slots){.base = base, .stride = stride, .free_count = LLI_SHM_SLOTS};
    for (uint32_t i = 0; i < LLI_SHM_SLOTS; i++)
        slots->free[i] = (uint16_t)(first + LLI_SHM_SLOTS - 1 - i);
    for (uint32_t i = 0; i < SHM_SLOTS_WARM; i++)
        memset(base + (size_t)i * stride, 0, warm_bytes);
}

static int control_memory(struct lli_shm *shm, const struct llm_options *options)
{
    const struct lli_memory_policy policy = {.numa_node = -1};
    const uint32_t peers =
        (uint32_t)lli_max(LLI_SHM_PEERS_MIN, options->receivers_max + options->sessions_max);
    int error;

    shm->out.senders = calloc(LLI_SHM_SENDERS_MAX, sizeof *shm->out.senders);
    shm->groups = calloc(LLI_SHM_GROUPS_MAX, sizeof *shm->groups);
    shm->in.sources =
        aligned_alloc(_Alignof(struct lli_shm_source), LLI_SHM_SOURCES_MAX * sizeof *shm->in.sources);
    shm->peer = calloc(peers, sizeof *shm->peer);
    if (shm->out.senders == NULL || shm->groups == NULL || shm->in.sources == NULL || shm->peer == NULL ||
        lli_peers_init(&shm->peers, peers) != 0)
        return lli_fail(shm->log, LLM_ENOMEM, "shm: no memory for an instance");
    error = lli_memory_map(&shm->memory, (size_t)LLI_SHM_SLOTS * (LLI_SHM_SLOT_SMALL + LLI_SHM_SLOT_STRIDE),
                           &policy, shm->log);
    if (error != LLM_OK)
        return error;
    control_slots(&shm->in.small, 0, shm->memory.base, LLI_SHM_SLOT_SMALL, LLI_SHM_SLOT_SMALL);
    control_slots(&shm->in.large, LLI_SHM_SLOTS,
                  (uint8_t *)shm->memory.base + LLI_SHM_SLOTS * LLI_SHM_SLOT_SMALL, LLI_SHM_SLOT_STRIDE,
                  shm->payload_max);
    return LLM_OK;
}

/*
 * Chooses the packet size. Larger packets mean fewer messages that span two packets, which readers must
 * reassemble, and longer sequential runs for the prefetcher: with messages of 1,000 B, 32,768 bytes give 1.4
 * times the rate of 9,000. But windows and losses are counted in packets.
 */
static uint32_t control_payload(const struct llm_options *options)
{
    const uint64_t share = options->history_bytes / SHM_HISTORY_PACKETS;

    return options->mtu != 0 ? options->mtu : (uint32_t)lli_min(lli_max(share, SHM_MTU_LEAST), SHM_MTU_MOST);
}

static const struct lli_option shm_options[] = {
#define SHM_OPTION(...) LLI_OPTION_ROW(struct lli_shm_options, __VA_ARGS__)
    LLI_SHM_OPTIONS(SHM_OPTION)};

const struct lli_option_table lli_shm_option_table = {shm_options, sizeof shm_options / sizeof shm_options[0],
                                                      sizeof(struct lli_shm_options)};

int lli_shm_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    const struct llm_options *options = config->options;
    struct lli_shm_options own;
    struct lli_shm *shm = instance;
    int error;

    shm->log = config->log;
    shm->socket = -1;
    shm->id = config->address == NULL ? lli_entropy() | 1 : lli_shm_id(config->address);
    if (options->mtu != 0 && options->mtu < SHM_MTU_MIN)
        return lli_fail(shm->log, LLM_EOPTION, "shm: mtu=%u is less than %d", options->mtu, SHM_MTU_MIN);
    shm->payload_max = control_payload(options);
    shm->entries = options->history_packets;
    lli_option_values_read(config->values, &lli_shm_option_table, &own);
    error = lli_shm_socket_open(shm, &own);
    if (error == LLM_OK)
        error = control_memory(shm, options);
    if (error != LLM_OK) {
        lli_shm_close(shm);
        return error;
    }
    *caps = (struct lli_caps){
        .payload_max = shm->payload_max,
        .post_max = LLI_SHM_POST_MAX,
        .train_max = 1,
        .align = 64,
        .slot_max = LLI_SHM_INLINE,
        .flags = LLI_CAP_TX_COPIES | LLI_CAP_UNICAST | LLI_CAP_PARTIAL | LLI_CAP_ORDERED,
        .numa_node = -1,
    };
    return LLM_OK;
}

static void sender_close(struct lli_shm *shm, struct lli_shm_sender *sender)
{
    lli_shm_remove(sender, &shm->root);
    lli_shm_unlock(&shm->root, sender->name, sender->lock_fd);
    memset(sender, 0, sizeof *sender);
}

/* Frees private memory of this process. */
static void control_free(struct lli_shm *shm)
{
    lli_memory_unmap(&shm->memory);
    lli_peers_fini(&shm->peers);
    free(shm->out.senders);
    free(shm->groups);
    free(shm->in.sources);
    free(shm->peer);
}

void lli_shm_close(void *instance)
{
    struct lli_shm *shm = instance;

    for (uint32_t i = 0; i < shm->in.count; i++)
        lli_shm_detach(&shm->in.sources[i]);
    for (uint32_t i = 0; i < shm->out.count; i++)
        if (shm->out.senders[i].segment.header != NULL)
            sender_close(shm, &shm->out.senders[i]);
    lli_shm_socket_close(shm);
    control_free(shm);
}

/* Leaves names, locks and reader places alone: they are the parent's. */
void lli_shm_abandon(void *instance)
{
    struct lli_shm *shm = instance;

    for (uint32_t i = 0; i < shm->in.count; i++)
        lli_shm_source_release(&shm->in.sources[i]);
    for (uint32_t i = 0; i < shm->out.count; i++) {
        if (shm->out.senders[i].segment.header == NULL)
            continue;
        lli_shm_sender_release(&shm->out.senders[i]);
        close(shm->out.senders[i].lock_fd);
    }
    close(shm->socket);
    control_free(shm);
}

/* -------------------------------------------------------------------------------------------------- scans */

struct look {
    struct lli_shm *shm;
    lli_handle group;
    bool joining; /* the group is being joined: skip what was sent before */
};

static bool look_has(const struct look *look, uint64_t id)
{
    for (uint32_t i = 0; i < look->shm->in.count; i++)
        if (look->shm->in.sources[i].group == look->group && look->shm->in.sources[i].segment.id == id)
            return true;
    return false;
}

static int look_is_full(const struct lli_log *log)
{
    return log == NULL ? LLM_ELIMIT
                       : lli_fail(log, LLM_ELIMIT, "shm: more than %d segments to read; use a second context",
                                  LLI_SHM_SOURCES_MAX);
}

static int look_at(void *arg, uint64_t id)
{
    const struct look *look = arg;
    struct lli_shm *shm = look->shm;
    const struct lli_shm_group *group = &shm->groups[look->group];
    struct lli_shm_source *source = &shm->in.sources[shm->in.count];
    int error;

    if (look_has(look, id))
        return 0;
    if (shm->in.count == LLI_SHM_SOURCES_MAX)
        return look_is_full(look->joining ? shm->log : NULL);
    error = lli_shm_attach(source, &shm->root, group->name, id, shm->id, look->joining ? shm->log : NULL);
    if (error == LLM_EAGAIN)
        return 0;
    if (error != LLM_OK) {
        shm->counters.attach_errors++;
        shm->problems.refused = true;
        return look->joining ? error : 0;
    }
    if (source->segment.header->writer == shm->id && !source->segment.header->loops) {
        lli_shm_detach(source);
        return 0;
    }
    if (look->joining)
        source->next = atomic_load_explicit(&source->segment.header->head, memory_order_acquire);
    source->group = look->group;
    (void)lli_shm_attach_history(&source->segment);
    if (shm->in.asks)
        atomic_store_explicit(&source->segment.bell->outlines, 1, memory_order_relaxed);
    shm->in.count++;
    shm->counters.attached++;
    return 0;
}

static void source_drop(struct lli_shm *shm, uint32_t place)
{
    lli_shm_detach(&shm->in.sources[place]);
    shm->in.sources[place] = shm->in.sources[--shm->in.count];
}

static uint64_t source_number(const struct lli_shm_source *source, uint64_t place)
{
    const struct lli_shm_segment *segment = &source->segment;

    return atomic_load_explicit(&lli_shm_entry_at(segment, place)->number, memory_order_acquire);
}

/*
 * Returns true if a dead writer's segment was read to its end. Skips an entry in which the writer died if
 * complete ones follow.
 */
static bool source_is_over(struct lli_shm *shm, struct lli_shm_source *source)
{
    uint64_t least = UINT64_MAX;

    if (!lli_shm_is_dead(&source->segment))
        return false;
    if (source_number(source, source->next) > source->next)
        return false;
    for (uint64_t i = 0; i <= source->segment.entries_mask; i++) {
        const uint64_t number = source_number(source, i);

        if (number > source->next && number < least)
            least = number;
    }
    if (least == UINT64_MAX)
        return true;
    shm->counters.lapped += least - 1 - source->next;
    source->next = least - 1;
    return false;
}

static void look_truncated(struct lli_shm *shm, const struct lli_shm_segment *segment)
{
    struct stat file = {.st_uid = (uid_t)-1};

    shm->counters.truncated++;
    shm->problems.truncated_id = segment->id;
    (void)fstat(segment->fd, &file);
    shm->problems.truncated_owner = file.st_uid;
}

/* Counts truncated files, and remaps their bells, empty. A truncated segment counts as dead. */
static void look_at_guards(struct lli_shm *shm)
{
    for (uint32_t i = 0; i < shm->out.count; i++) {
        struct lli_shm_sender *sender = &shm->out.senders[i];

        if (lli_shm_guard_is_broken(sender->segment.bell_guard) && lli_shm_bell_restore(sender))
            look_truncated(shm, &sender->segment);
    }
    for (uint32_t i = 0; i < shm->in.count; i++) {
        struct lli_shm_source *source = &shm->in.sources[i];

        if (lli_shm_guard_is_broken(source->segment.guard))
            look_truncated(shm, &source->segment);
        else if (lli_shm_guard_is_broken(source->segment.bell_guard) &&
                 lli_shm_bell_mend(&source->segment, &shm->root, shm->groups[source->group].name))
            look_truncated(shm, &source->segment);
    }
}

void lli_shm_look(struct lli_shm *shm)
{
    shm->in.changed = false;
    shm->problems.refused = false;
    look_at_guards(shm);
    for (uint32_t i = shm->in.count; i-- > 0;)
        if (source_is_over(shm, &shm->in.sources[i]))
            source_drop(shm, i);
    for (lli_handle i = 0; i < LLI_SHM_GROUPS_MAX; i++) {
        struct look look = {.shm = shm, .group = i};

        if (shm->groups[i].users > 0 &&
            lli_shm_each(&shm->root, shm->groups[i].name, look_at, &look, NULL) != 0) {
            shm->counters.attach_errors++;
            shm->problems.refused = true;
        }
    }
}

/* -------------------------------------------------------------------------------------------- diagnostics */

static struct lli_shm_logged *logged_find(struct lli_shm *shm, uint64_t id)
{
    for (uint32_t i = 0; i < shm->problems.count; i++)
        if (shm->problems.logged[i].id == id)
            return &shm->problems.logged[i];
    return NULL;
}

/*
 * Retries a refused segment in order to log the reason. Logs nothing for segments beyond LLI_SHM_LOGGED_MAX.
 */
static int log_at(void *arg, uint64_t id)
{
    const struct look *look = arg;
    struct lli_shm *shm = look->shm;
    const struct lli_shm_group *group = &shm->groups[look->group];
    struct lli_shm_logged *logged = logged_find(shm, id);
    struct lli_shm_source source;
    int error;

    if (look_has(look, id))
        return 0;
    if (shm->in.count == LLI_SHM_SOURCES_MAX)
        return look_is_full(group->logged ? NULL : shm->log);
    if (logged != NULL)
        logged->here = true;
    if (logged != NULL || shm->problems.count == LLI_SHM_LOGGED_MAX)
        return 0;
    error = lli_shm_attach(&source, &shm->root, group->name, id, shm->id, shm->log);
    if (error == LLM_OK)
        lli_shm_detach(&source);
    else if (error != LLM_EAGAIN)
        shm->problems.logged[shm->problems.count++] = (struct lli_shm_logged){id, true};
    return 0;
}

/* Forgets segments that were removed or are read by now. */
static void logged_sweep(struct lli_shm *shm)
{
    uint32_t remaining = 0;

    for (uint32_t i = 0; i < shm->problems.count; i++)
        if (shm->problems.logged[i].here)
            shm->problems.logged[remaining++] = (struct lli_shm_logged){shm->problems.logged[i].id, false};
    shm->problems.count = remaining;
}

static void log_truncated(struct lli_shm *shm)
{
    if (shm->counters.truncated > 0 && shm->problems.truncated_logged == 0)
        lli_log(
            shm->log, LLM_LEVEL_WARNING,
            "shm: segment %016llx of user %u, or its bell, was truncated while it was mapped: the segment is "
            "not read any more, the bell is mapped again; shm_truncated counts it, and shm_mode says which "
            "users may",
            (unsigned long long)shm->problems.truncated_id, (unsigned)shm->problems.truncated_owner);
    shm->problems.truncated_logged = shm->counters.truncated;
}

void lli_shm_report(void *instance)
{
    struct lli_shm *shm = instance;

    log_truncated(shm);
    if (!shm->problems.refused && !shm->problems.logging)
        return;
    shm->problems.logging = false;
    for (lli_handle i = 0; i < LLI_SHM_GROUPS_MAX; i++) {
        struct look look = {.shm = shm, .group = i};
        struct lli_shm_group *group = &shm->groups[i];

        group->logged = group->users > 0 && lli_shm_each(&shm->root, group->name, log_at, &look,
                                                         group->logged ? NULL : shm->log) != 0;
        shm->problems.logging |= group->logged;
    }
    logged_sweep(shm);
    shm->problems.logging |= shm->problems.count > 0;
}

/* ----------------------------------------------------------------------------------------- join and leave */

static int join_send(struct lli_shm *shm, const struct lli_group *group, const char *name, lli_handle *handle)
{
    const struct lli_shm_shape shape = {
        .entries = shm->entries,
        .payload_max = shm->payload_max,
        .loops = group->options->loop != 0,
        .writer = shm->id,
        .history_bytes = group->options->history_bytes,
    };
    struct lli_shm_options own;
    struct lli_shm_sender *sender;
    uint32_t place = 0;
    int error;

    while (place < LLI_SHM_SENDERS_MAX && shm->out.senders[place].segment.header != NULL)
        place++;
    if (place == LLI_SHM_SENDERS_MAX)
        return lli_fail(shm->log, LLM_ELIMIT, "shm: more than %d joins to send; use a second context",
                        LLI_SHM_SENDERS_MAX);
    sender = &shm->out.senders[place];
    *sender = (struct lli_shm_sender){.segment = {.fd = -1}, .bell_fd = -1};
    strcpy(sender->name, name);
    lli_option_values_read(group->values, &lli_shm_option_table, &own);
    sender->lock_fd = lli_shm_lock(&shm->root, name,
                                   group->shared            ? LLI_SHM_BESIDE
                                   : own.shm_exclusive != 0 ? LLI_SHM_EXCLUSIVE
                                                            : LLI_SHM_SHARED,
                                   shm->log);
    if (sender->lock_fd < 0)
        return sender->lock_fd;
    error = lli_shm_create(sender, &shm->root, &shape, shm->log);
    if (error != LLM_OK) {
        lli_shm_unlock(&shm->root, name, sender->lock_fd);
        return error;
    }
    if (place >= shm->out.count)
        shm->out.count = place + 1;
    lli_shm_socket_call(shm);
    *handle = place;
    return LLM_OK;
}

static int join_receive(struct lli_shm *shm, const char *name, lli_handle *handle)
{
    struct look look = {.shm = shm, .joining = true};
    uint32_t place, unused = LLI_SHM_GROUPS_MAX;
    int error;

    for (place = 0; place < LLI_SHM_GROUPS_MAX; place++) {
        if (shm->groups[place].users > 0 && strcmp(shm->groups[place].name, name) == 0)
            break;
        if (shm->groups[place].users == 0 && unused == LLI_SHM_GROUPS_MAX)
            unused = place;
    }
    if (place == LLI_SHM_GROUPS_MAX)
        place = unused;
    if (place == LLI_SHM_GROUPS_MAX)
        return lli_fail(shm->log, LLM_ELIMIT, "shm: more than %d groups; use a second context",
                        LLI_SHM_GROUPS_MAX);
    *handle = place;
    if (shm->groups[place].users++ > 0)
        return LLM_OK;
    strcpy(shm->groups[place].name, name);
    look.group = place;
    error = lli_shm_each(&shm->root, name, look_at, &look, shm->log);
    if (error != LLM_OK)
        lli_shm_leave(shm, place, LLI_JOIN_RECEIVE);
    return error;
}

int lli_shm_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle)
{
    struct lli_shm *shm = instance;
    char name[LLI_SHM_NAME_MAX];
    int error = lli_shm_name(name, group, shm->log);

    if (error != LLM_OK)
        return error;
    shm->in.only = NULL;
    return mode == LLI_JOIN_SEND ? join_send(shm, group, name, handle) : join_receive(shm, name, handle);
}

static void leave_send(struct lli_shm *shm, lli_handle handle)
{
    (void)lli_shm_flush(shm);
    sender_close(shm, &shm->out.senders[handle]);
}

static void leave_receive(struct lli_shm *shm, lli_handle handle)
{
    if (--shm->groups[handle].users > 0)
        return;
    for (uint32_t i = shm->in.count; i-- > 0;)
        if (shm->in.sources[i].group == handle)
            source_drop(shm, i);
}

void lli_shm_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct lli_shm *shm = instance;

    shm->in.only = NULL;
    if (mode == LLI_JOIN_SEND)
        leave_send(shm, handle);
    else
        leave_receive(shm, handle);
}

/* ------------------------------------------------------------------------------------------------- memory */

int lli_shm_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region)
{
    struct lli_shm *shm = instance;
    struct lli_shm_sender *sender = &shm->out.senders[to];
    int error = lli_shm_extend(sender, &shm->root, size, shm->log);

    if (error != LLM_OK)
        return error;
    sender->slot = lli_shm_entry_at(&sender->segment, sender->next)->bytes;
    *region = (struct lli_region){
        .base = sender->segment.history,
        .edge = &sender->segment.header->history_edge,
        .slot = &sender->slot,
    };
    return LLM_OK;
}

/*
 * Nothing to do: post() has published everything, and the history stays mapped until leave(), because readers
 * use its edge.
 */
void lli_shm_region_end(void *instance, void *base, size_t size)
{
    (void)instance;
    (void)base;
    (void)size;
}
