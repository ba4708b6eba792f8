/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the shared memory transport: a directory for each test, instances in it, processes,
 * packets.
 */
#ifndef TESTS_SHM_TEST_H
#define TESTS_SHM_TEST_H

#include "contract.h"

#include "core/pack/history.h"
#include "shm.h"

#define NAME "prices"

/*
 * Directory of the running test, created by own_directory(); nothing_left() checks that it is empty, and that
 * no mappings are left.
 */
extern char directory[64];
int own_directory(void **state);
int nothing_left(void **state);

#define shm_test(function) cmocka_unit_test_setup_teardown(function, own_directory, nothing_left)

void expect_logged(const char *text);
void expect_logged_once(const char *text);

/* ---------------------------------------------------------------------------------------------- instances */

/* Few entries and small rings: laps occur soon. */
struct llm_options small_options(void);

int try_writer(struct station *station, const struct llm_options *options);
void open_writer(struct station *station, const struct llm_options *options);
int try_reader(struct station *station, const struct llm_options *options);
void open_reader(struct station *station, const struct llm_options *options);
/* Opens and closes a writer, which removes the files of killed ones. */
void next_writer(const struct llm_options *options);
struct lli_shm *shm_of(const struct station *station);
struct lli_shm_segment *segment_of(const struct station *writer);

/* Polls until new and dead segments are known. */
void station_look(struct station *station);

/* Counts the files of a name with this suffix. */
int files_of(const char *name, const char *ending);
/*
 * Waits until the locks of killed writers of a name are released: the kernel releases them with the last
 * mapping, which a reader of /proc may hold for a moment.
 */
void await_unlocked(const char *name);

/* ---------------------------------------------------------------------------------------------- processes */

/* Starts a process that ends with the function's result, or with the test; it inherits no descriptor. */
pid_t process_start(int (*function)(void *arg), void *arg);
/* Returns its exit status, or 128 and the signal that ended it. */
int process_end(pid_t pid);
int process_kill(pid_t pid);

/* Parses [ROUNDS [SEED]] of a program that kills. */
void rounds_arguments(int argc, char **argv, uint64_t *rounds);
/* Returns 0 to bound - 1, by that seed. */
uint64_t random_below(uint64_t bound);

/* Maps zeroed memory shared with processes started later. */
void *shared_memory(size_t size);
void shared_free(void *memory, size_t size);

/* Waits for another process, with a long time limit. */
void await_value(const _Atomic uint64_t *value, uint64_t least);

/* ------------------------------------------------------------------------------------------------ packets */

enum { PACKET_MIN = 32, HISTORY_BYTES = 65536 };

/* Fills a packet with bytes that identify its writer and show if it is whole. size: at least PACKET_MIN. */
void packet_write(uint8_t *data, uint32_t size, uint64_t writer, uint64_t number);
bool packet_read(const uint8_t *data, uint32_t size, uint64_t *writer, uint64_t *number);

/* A writer with a history, from which it sends. */
struct feed {
    struct station station;
    struct lli_history history;
    void *slots;
    uint64_t id;
    uint64_t sent;
    uint8_t scratch[LLI_SHM_SLOT_BYTES];
};

void feed_open(struct feed *feed, const struct llm_options *options, uint64_t id);
void feed_close(struct feed *feed);
/*
 * Posts and flushes one packet, from the history or from other memory: small packets of an even size from the
 * slot.
 */
void feed_history(struct feed *feed, uint32_t size);
void feed_plain(struct feed *feed, uint32_t size);
void feed_packet(struct feed *feed, const uint8_t *data, uint32_t size);

enum { AUDIT_WRITERS = 64 };

/*
 * Packets that a reader received from all writers in sequence. A delayed reader may read the last packets of
 * a dead writer together with those of the next one.
 */
struct audit {
    uint64_t writer;
    uint64_t next;                 /* number of this writer's next packet */
    uint64_t ended[AUDIT_WRITERS]; /* the same for earlier writers, each at its number modulo AUDIT_WRITERS */
    uint64_t got;
    uint64_t skipped;
    uint64_t torn, disordered; /* count defects */
};

/* Takes one burst; returns its number of packets. */
int audit_take(struct audit *audit, struct station *reader);
/* Takes all available packets. */
void audit_all(struct audit *audit, struct station *reader);
void audit_fine(const struct audit *audit);

#endif
