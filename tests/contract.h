/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the contract suite. */
#ifndef TESTS_CONTRACT_H
#define TESTS_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "patience.h"
#include "transport.h"

enum {
    PACKETS_MAX = 32768, /* packets that a test receives */
    BURST = 32,          /* packets that it receives per call */
    QUIET_NS = 20000000, /* no packet for this time: none will come */
};

/* A packet that takes longer counts as lost. */
#define ARRIVAL_NS patience(2000000000)

/* Transport under test, from the command line. */
extern const struct lli_transport *transport;
extern const char *scheme;
extern const char *host;
extern uint16_t port;
extern struct llm_options common;

/*
 * Options of the transports that the scheme names, for instances opened from now on; each instance copies
 * them. own_set() and own_number() change one option; own_reset() sets the defaults.
 */
extern struct lli_option_values own_options;
void own_set(const char *key, const char *value);
void own_number(const char *key, uint64_t value);
void own_reset(void);

/* Offset of the size field in packets, as passed to transports; 0: none. */
extern uint32_t size_at;

/* only=faults: run only the tests of faults, over a transport that was tested without the decorator. */
extern bool only_faults;

/* Group of the second line, with line=HOST: two lines of the scheme are tested; NULL: one. */
extern const char *second_host;

/*
 * Parses OPTION=VALUE into common or own_options; or only=faults; or line=HOST; or hosts=MTU, which puts each instance on a
 * host of its own, with cables of that MTU.
 */
void option_set(char *argument);

/* Create a directory of this process for shared memory; check that nothing was left in it. */
void shared_memory_own(void);
bool shared_memory_is_empty(void);

/* Creates the network that the options ask for; false if that is not possible here. */
bool network_made(void);

/* Text logged since the last open or join. */
extern char log_text[4096];

/* An instance that joined the group in both modes. */
struct station {
    void *instance;
    int host; /* its host in hosts.h, if hosts are used */
    struct lli_caps caps;
    struct llm_options options;
    struct lli_option_values values;
    lli_handle send;
    lli_handle receive;
    uint64_t
        *once; /* over shm+X and two lines, which delivers packets twice: packets delivered once so far */
    uint32_t once_count;
};

/* Opens without joining; leaves nothing behind on failure. */
int instance_open(struct station *station, const char *at, const struct llm_options *options);
/* Opens on the thread's current host, in station->instance, with station->options. */
int station_open_here(struct station *station, const char *at);
int station_join(struct station *station, const char *at, uint16_t number, enum lli_join_mode mode,
                 lli_handle *handle);
void station_open_with(struct station *station, const struct llm_options *options);
void station_open(struct station *station);
void station_close(struct station *station);
uint64_t station_counter(const struct station *station, const char *name);

/* Declares memory to post from; the test ends the region. */
void station_region(struct station *station, void *base, size_t size);
lli_handle station_peer(struct station *from, struct station *to);

void station_flush(struct station *station);
void station_send(struct station *station, lli_handle to, const void *data, size_t size);

/* Receives until there is a packet, up to a time limit. */
int station_await(struct station *station, struct lli_in *packets, int max, uint64_t wait_ns);

/* Expects exactly one packet, equal to this one. */
void station_expect(struct station *station, lli_handle from, const void *data, size_t size);
void station_expect_nothing(struct station *station);

/* Returns true if a descriptor becomes readable within a time. */
bool readable(int fd, int timeout_ms);

/* Runs the tests of the faults; returns how many failed. */
int contract_faults(void);

/* Runs the tests of forgotten addresses; returns how many failed. */
int contract_peers(void);

/* Runs the tests of dropped packets, if the transport counts drops; returns how many failed. */
int contract_drops(void);

/* Runs the tests of slots, if the transport has them; returns how many failed. */
int contract_slot(void);

/* Runs the tests of child processes; returns how many failed. */
int contract_fork(void);

#endif
