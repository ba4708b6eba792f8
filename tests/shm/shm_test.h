/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the shared memory transport share: a directory for each test, instances in it, processes,
 * packets.
 */
#ifndef TESTS_SHM_TEST_H
#define TESTS_SHM_TEST_H

#include "contract.h"

#include "core/pack/history.h"
#include "shm.h"

#define NAME "prices"

/*
 * Of the test that runs; made by own_directory(), and found empty by nothing_left(), which also looks for
 * mappings.
 */
extern char directory[64];
int own_directory(void **state);
int nothing_left(void **state);

#define shm_test(function) cmocka_unit_test_setup_teardown(function, own_directory, nothing_left)

void expect_logged(const char *text);
void expect_logged_once(const char *text);

/* ---------------------------------------------------------------------------------------------- instances */

/* Few entries and small rings: laps come soon. */
struct llm_options small_options(void);

int try_writer(struct station *station, const struct llm_options *options);
void open_writer(struct station *station, const struct llm_options *options);
int try_reader(struct station *station, const struct llm_options *options);
void open_reader(struct station *station, const struct llm_options *options);
/* Comes and goes, and takes away what the killed left. */
void next_writer(const struct llm_options *options);
struct lli_shm *shm_of(const struct station *station);
struct lli_shm_segment *segment_of(const struct station *writer);

/* Polls until what is known of new and dead segments is up to date. */
void station_look(struct station *station);

/* How many files there are of a name, with this ending. */
int files_of(const char *name, const char *ending);
/* Waits until all writers of a name that were killed are dead for others too: the kernel gives their locks back with their last
 * mapping, which whoever reads /proc keeps for a moment. */
void await_unlocked(const char *name);

/* ---------------------------------------------------------------------------------------------- processes */

/*
 * Starts one that ends with what the function returns, or with the test; it keeps no descriptor of this one.
 */
pid_t process_start(int (*function)(void *arg), void *arg);
/* Its exit status, or 128 and the signal that ended it. */
int process_end(pid_t pid);
int process_kill(pid_t pid);

/* [ROUNDS [SEED]] of a program that kills. */
void rounds_arguments(int argc, char **argv, uint64_t *rounds);
/* 0 to bound - 1, of that seed. */
uint64_t random_below(uint64_t bound);

/* Memory that processes started later share, zeroed. */
void *shared_memory(size_t size);
void shared_free(void *memory, size_t size);

/* Waits for another process, which has long to do it. */
void await_value(const _Atomic uint64_t *value, uint64_t least);

/* ------------------------------------------------------------------------------------------------ packets */

enum { PACKET_MIN = 32, HISTORY_BYTES = 65536 };

/* Bytes that tell whether they are whole, and whose they are. size: at least PACKET_MIN. */
void packet_write(uint8_t *data, uint32_t size, uint64_t writer, uint64_t number);
bool packet_read(const uint8_t *data, uint32_t size, uint64_t *writer, uint64_t *number);

/* A writer with a history, and where its packets come from. */
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
 * Posts and flushes one packet, out of the history or out of other memory: small ones of an even size out of
 * where they will lie.
 */
void feed_history(struct feed *feed, uint32_t size);
void feed_plain(struct feed *feed, uint32_t size);
void feed_packet(struct feed *feed, const uint8_t *data, uint32_t size);

enum { AUDIT_WRITERS = 64 };

/*
 * What a reader has had of all writers, one after the other. Whoever was held up reads the last of a dead one
 * beside the next.
 */
struct audit {
    uint64_t writer;
    uint64_t next;                 /* number of this writer's packet to come */
    uint64_t ended[AUDIT_WRITERS]; /* the same of those before, each at its number modulo AUDIT_WRITERS */
    uint64_t got;
    uint64_t skipped;
    uint64_t torn, disordered; /* are defects */
};

/* Takes one burst; how many packets it had. */
int audit_take(struct audit *audit, struct station *reader);
/* Takes what there is. */
void audit_all(struct audit *audit, struct station *reader);
void audit_fine(const struct audit *audit);

#endif
