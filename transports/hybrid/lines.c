/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lines: a channel of two parts, such as one group on each of two networks. Every packet to a group is sent
 * on both lines, and a receiver uses the first copy; a unicast goes over the line on which its address was
 * announced. Each line has an address of its own, which its packets announce, so an instance that has only one
 * of the lines can take part.
 */
#include <string.h>

#include "pair.h"
#include "core/base/types.h"

enum {
    /* Announced addresses whose line is remembered; a power of two. One that was displaced is tried on both. */
    LINES_ADDRESSES = 4096,
    /*
     * Packets that one line may have sent ahead of the other. Beyond, packets for a line that takes none are
     * dropped, so that it does not stop the other.
     */
    LINES_AHEAD = LLI_PAIR_POST_MAX / 2,
};

/* lli_in.buffer bit: the packet came on the second line. */
#define LINES_SECOND ((uint64_t)1 << 62)

struct lines {
    struct lli_pair pair;
    int turn; /* the line to be read next */
    /* By a hash of the address: the hash, with the line on which it was announced in bit 0; 0: none. */
    uint64_t announced[LINES_ADDRESSES];
    struct {
        uint64_t line_1_unsent;
        uint64_t line_2_unsent;
    } counters;
};

/* ----------------------------------------------------------------------------------------- open and close */

static struct lli_caps lines_caps(const struct lli_caps *a, const struct lli_caps *b)
{
    return (struct lli_caps){
        .payload_max = (uint32_t)lli_min(a->payload_max, b->payload_max),
        .post_max = LLI_PAIR_POST_MAX,
        .train_max = (uint32_t)lli_max(a->train_max, b->train_max),
        .headroom = (uint32_t)lli_max(a->headroom, b->headroom),
        .align = (uint32_t)lli_max(a->align, b->align),
        .flags = (a->flags & b->flags & (LLI_CAP_TX_COPIES | LLI_CAP_UNICAST)) | LLI_CAP_PARTIAL,
        .numa_node = a->numa_node,
    };
}

static int lines_set_up(struct lli_pair *pair, const struct lli_transport_config *config)
{
    const struct lli_transport_config *const configs[] = {config, config->second};
    int error = lli_pair_init(pair, config, "lines", LINES_SECOND);

    if (error == LLM_OK && config->second == NULL)
        error =
            lli_fail(pair->log, LLM_ESCHEME,
                     "scheme \"%s\": two lines are two channels with \" + \" between them", config->scheme);
    for (int i = 0; i < LLI_PAIR_PARTS && error == LLM_OK; i++) {
        struct lli_transport_config part = *configs[i];

        part.second = NULL;
        pair->part[i].transport = config->registry->find(part.scheme);
        if (pair->part[i].transport == NULL)
            return lli_fail(pair->log, LLM_ESCHEME, "scheme \"%s\": it is not known, or not in this build",
                            part.scheme);
        error = lli_pair_open_part(pair, i, &part);
    }
    if (error == LLM_OK && !(pair->part[0].caps.flags & pair->part[1].caps.flags & LLI_CAP_UNICAST))
        error = lli_fail(pair->log, LLM_ESCHEME,
                         "schemes \"%s\" and \"%s\": lines need unicast, by which losses are repaired",
                         config->scheme, config->second->scheme);
    return error;
}

static int lines_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_pair *pair = instance;
    const int error = lines_set_up(pair, config);

    if (error != LLM_OK)
        lli_pair_close(pair);
    else
        *caps = lines_caps(&pair->part[0].caps, &pair->part[1].caps);
    return error;
}

static int lines_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                      lli_handle *handle)
{
    const struct lli_group *const groups[] = {group, group->second};
    struct lli_pair *pair = instance;

    if (group->second == NULL)
        return lli_fail(pair->log, LLM_EGROUP, "lines: group %s has no second line", group->host);
    return lli_pair_join(pair, groups, mode, handle);
}

/* ----------------------------------------------------------------------------------------- address, peers */

static int lines_line_address(void *instance, int line, struct lli_address *address)
{
    const struct lli_pair_part *part = &((const struct lli_pair *)instance)->part[line];

    return part->transport->address(part->instance, address);
}

static int lines_address(void *instance, struct lli_address *address)
{
    return lines_line_address(instance, 0, address);
}

/* FNV-1a; a forged collision makes a packet take the other line, from where its address is tried, too. */
static uint64_t address_hash(const struct lli_address *address)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (uint32_t i = 0; i < address->size; i++)
        hash = (hash ^ address->bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static uint64_t *announced_place(struct lines *lines, uint64_t hash)
{
    return &lines->announced[hash >> 1 & (LINES_ADDRESSES - 1)];
}

static void lines_announced(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const uint64_t hash = address_hash(address);

    *announced_place(instance, hash) = (hash & ~(uint64_t)1) | (uint64_t)lli_pair_part_of(instance, packet);
}

/* Returns the line on which an address was announced; -1: not known. */
static int line_announced(struct lines *lines, const struct lli_address *address)
{
    const uint64_t hash = address_hash(address);
    const uint64_t found = *announced_place(lines, hash);

    return (found | 1) == (hash | 1) ? (int)(found & 1) : -1;
}

static int part_peer(const struct lli_pair *pair, int which, const struct lli_address *address,
                     lli_handle *handle)
{
    return pair->part[which].transport->peer(pair->part[which].instance, address, handle);
}

static int lines_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct lines *lines = instance;
    struct lli_pair *pair = &lines->pair;
    const int announced = line_announced(lines, address);
    int line = announced < 0 ? 0 : announced;
    lli_handle inner = 0;
    uint32_t place;
    int error;

    if (lli_peers_get(&pair->peers, address, &place) && pair->peer[place].known &&
        (announced < 0 || pair->peer[place].part == announced)) {
        *handle = LLI_PAIR_PEER | place;
        return LLM_OK;
    }
    error = part_peer(pair, line, address, &inner);
    if (error == LLM_EINVAL) {
        line = 1 - line;
        error = part_peer(pair, line, address, &inner);
    }
    if (error != LLM_OK || (error = lli_peers_place(&pair->peers, address, &place)) != LLM_OK)
        return error;
    pair->peer[place] = (struct lli_pair_peer){.known = true, .part = (uint8_t)line, .handle = inner};
    *handle = LLI_PAIR_PEER | place;
    return LLM_OK;
}

static bool lines_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    return lli_pair_came_from(instance, packet, address);
}

static lli_handle lines_narrow(lli_handle group, int line)
{
    return group | ((lli_handle)line + 1) << LLI_PAIR_ONLY_SHIFT;
}

static int lines_line_to(const void *instance, lli_handle to)
{
    const struct lli_pair *pair = instance;

    return to & LLI_PAIR_PEER ? pair->peer[to & ~LLI_PAIR_PEER].part : -1;
}

static int lines_line_of(const void *instance, const struct lli_in *packet)
{
    return lli_pair_part_of(instance, packet);
}

/* ------------------------------------------------------------------------------------- sending, receiving */

/*
 * Drops packets for a line that takes none while the other goes on: copies of what that has sent, and unicasts, which
 * are requested or sent again over the other line.
 */
static void drop_unsent(struct lli_pair *pair, int line, uint64_t *unsent)
{
    while (pair->part[line].stuck && !pair->part[1 - line].stuck &&
           pair->taken - pair->part[line].given > LINES_AHEAD)
        *unsent += lli_pair_pass_over(pair, line);
}

static int lines_flush(void *instance)
{
    struct lines *lines = instance;
    const int error = lli_pair_flush(&lines->pair);

    if (error == LLM_OK)
        return LLM_OK;
    drop_unsent(&lines->pair, 0, &lines->counters.line_1_unsent);
    drop_unsent(&lines->pair, 1, &lines->counters.line_2_unsent);
    (void)lli_pair_reap(&lines->pair);
    return error;
}

/* Reads one line a call, so that a packet is delivered before the other line is read. */
static int lines_receive(void *instance, struct lli_in *packets, int max)
{
    struct lines *lines = instance;
    int line = lines->turn;
    int count = lli_pair_receive(&lines->pair, line, packets, max);

    if (count == 0) {
        line = 1 - line;
        count = lli_pair_receive(&lines->pair, line, packets, max);
    }
    lines->turn = 1 - line;
    return count;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter lines_counters[] = {
    {"line_1_unsent", offsetof(struct lines, counters.line_1_unsent)},
    {"line_2_unsent", offsetof(struct lines, counters.line_2_unsent)},
    {NULL, 0},
};

static const struct lli_line_calls lines_calls = {
    .address = lines_line_address,
    .narrow = lines_narrow,
    .line_to = lines_line_to,
    .line_of = lines_line_of,
    .announced = lines_announced,
};

const struct lli_transport lli_transport_lines = {
    .scheme = "lines",
    .size = sizeof(struct lines),
    .counters = lines_counters,
    .open = lines_open,
    .close = lli_pair_close,
    .abandon = lli_pair_abandon,
    .region = lli_pair_region,
    .region_map = lli_pair_region_map,
    .region_end = lli_pair_region_end,
    .join = lines_join,
    .leave = lli_pair_leave,
    .address = lines_address,
    .peer = lines_peer,
    .forget = lli_pair_forget,
    .came_from = lines_came_from,
    .post = lli_pair_post,
    .flush = lines_flush,
    .reap = lli_pair_reap,
    .receive = lines_receive,
    .release = lli_pair_release,
    .arm = lli_pair_arm,
    .inner = lli_pair_inner,
    .lines = &lines_calls,
};
