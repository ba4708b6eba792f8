/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of recordings by whole segments: the oldest first, never one that is being written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>

#include "store/store.h"

/* True if messages that the segment has, which ends before message `end`, are not acknowledged. */
static bool retention_is_awaited(const struct llm_store *store, const struct lli_recorded *recorded,
                                 uint64_t end)
{
    const struct lli_rx *rx = recorded == NULL ? NULL : lli_recorded_rx(recorded);

    return store->options.until_acknowledged && rx != NULL &&
           rx->heartbeat.flags & LLI_WIRE_HEARTBEAT_ASSURED && end > rx->heartbeat.unacknowledged_messages;
}

/* True if the oldest segment of a recording may be removed. */
static bool retention_may_remove(const struct llm_store *store, const struct lli_recording *recording)
{
    const struct lli_recorded *recorded = lli_store_recorded(store, recording->session);
    const bool last = recording->count == 1;

    if (last && recorded != NULL)
        return false;
    /* The message in the header of the next segment may be followed by others in the same packet. */
    return !retention_is_awaited(store, recorded,
                                 recording->count > 2 ? recording->segments[2].message : UINT64_MAX);
}

/* ----------------------------------------------------------------------------------------------------- age */

/*
 * Notes an age, by the wall clock, once. From then on the monotonic clock counts: a clock that steps removes nothing
 * early. What is in the future, since the clock stepped back before this store was opened, is new.
 */
static void retention_note(struct lli_catalogue_age *age, lli_ns since, lli_ns wall, lli_ns now)
{
    if (age->at == 0)
        *age = (struct lli_catalogue_age){.at = now, .age = lli_max(wall, since) - since};
}

static lli_ns retention_age(const struct lli_catalogue_age *age, lli_ns now)
{
    return age->age + (now - age->at);
}

/* Wall clock of the last write to a recording that nothing is written to. */
static lli_ns retention_written(const struct llm_store *store, const struct lli_recording *recording)
{
    const struct lli_catalogue_segment *last = recording->segments + recording->count - 1;
    char name[LLI_CATALOGUE_NAME];
    struct stat file;

    lli_catalogue_name(name, recording->session, last->ordinal, LLI_CATALOGUE_SEGMENT);
    if (fstatat(store->catalogue->fd, name, &file, AT_SYMLINK_NOFOLLOW) != 0)
        return last->begun;
    return lli_max(last->begun, (lli_ns)file.st_mtim.tv_sec * 1000000000u + (lli_ns)file.st_mtim.tv_nsec);
}

/* Notes the ages that are not known, of earlier runs and of new segments, and that recordings are followed. */
static void retention_note_ages(const struct llm_store *store)
{
    const lli_ns wall = lli_clock_real_ns(), now = lli_clock_ns();

    for (uint32_t i = 0; i < store->catalogue->count; i++) {
        struct lli_recording *recording = store->catalogue->recordings[i];

        for (uint32_t j = recording->count; j > 0 && recording->segments[j - 1].age.at == 0; j--)
            retention_note(&recording->segments[j - 1].age, recording->segments[j - 1].begun, wall, now);
        if (lli_store_recorded(store, recording->session) != NULL)
            recording->age = (struct lli_catalogue_age){.at = now};
        else if (store->options.age_ns_max > 0 && recording->age.at == 0)
            retention_note(&recording->age, retention_written(store, recording), wall, now);
    }
}

/* Time since the last write to the oldest segment of a recording, or since the recording was followed. */
static lli_ns retention_idle(const struct lli_recording *recording, lli_ns now)
{
    return retention_age(recording->count > 1 ? &recording->segments[1].age : &recording->age, now);
}

/* -------------------------------------------------------------------------------------------------- remove */

/* Returns the recording with the oldest segment that may be removed, NULL: there is none. */
static const struct lli_recording *retention_oldest(const struct llm_store *store)
{
    const struct lli_recording *oldest = NULL;
    const lli_ns now = lli_clock_ns();

    for (uint32_t i = 0; i < store->catalogue->count; i++) {
        const struct lli_recording *recording = store->catalogue->recordings[i];

        if (retention_may_remove(store, recording) &&
            (oldest == NULL ||
             retention_age(&recording->segments[0].age, now) > retention_age(&oldest->segments[0].age, now)))
            oldest = recording;
    }
    return oldest;
}

static bool retention_remove(struct llm_store *store, const struct lli_recording *recording)
{
    const uint64_t ordinal = recording->segments[0].ordinal;
    const uint64_t session = recording->session;

    /* After a failed write the kernel may have pages of the file that are not on the disk, and count as clean. */
    if (!lli_pool_retire(store->pool, session, ordinal, !recording->segments[0].failed))
        return false;
    store->counters.store_segments_retired++;
    return lli_catalogue_remove(store->catalogue, session, ordinal);
}

/* Removes the oldest segment that may be removed. Returns its bytes; 0: there is none. */
static uint64_t retention_remove_oldest(struct llm_store *store)
{
    const struct lli_recording *oldest = retention_oldest(store);
    const uint64_t size = oldest == NULL ? 0 : oldest->segments[0].size;

    return size > 0 && retention_remove(store, oldest) ? size : 0;
}

bool lli_retention_make_room(struct llm_store *store)
{
    retention_note_ages(store);
    return retention_remove_oldest(store) > 0;
}

static uint64_t retention_bytes(const struct llm_store *store)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < store->catalogue->count; i++)
        for (uint32_t j = 0; j < store->catalogue->recordings[i]->count; j++)
            bytes += store->catalogue->recordings[i]->segments[j].size;
    return bytes;
}

bool lli_retention_is_reached(const struct llm_store *store)
{
    return store->options.bytes_max > 0 &&
           retention_bytes(store) + store->options.segment_bytes > store->options.bytes_max;
}

/* Removes segments that are too old; when a recording has none left, the next one takes its place. */
static void retention_remove_old(struct llm_store *store)
{
    const uint64_t age = store->options.age_ns_max;
    const lli_ns now = lli_clock_ns();

    for (uint32_t i = 0; age > 0 && i < store->catalogue->count;) {
        const struct lli_recording *recording = store->catalogue->recordings[i];

        if (!retention_may_remove(store, recording) || retention_idle(recording, now) < age ||
            !retention_remove(store, recording))
            i++;
    }
}

void lli_retention_service(struct llm_store *store)
{
    uint64_t bytes, removed = 1;

    retention_note_ages(store);
    retention_remove_old(store);
    if (store->options.bytes_max == 0)
        return;
    for (bytes = retention_bytes(store); bytes > store->options.bytes_max && removed > 0; bytes -= removed)
        removed = retention_remove_oldest(store);
}
