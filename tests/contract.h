/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the contract suite share. */
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
    PACKETS_MAX = 32768, /* that a test gets */
    BURST = 32,          /* that it gets by one call */
    QUIET_NS = 20000000, /* no packet for this: none will come */
};

/* A packet that takes longer is lost. */
#define ARRIVAL_NS patience(2000000000)

/* From the command line. */
extern const struct lli_transport *transport;
extern const char *scheme;
extern const char *host;
extern uint16_t port;
extern struct llm_options common;

/*
 * Options of the transports that the scheme names, for instances that are opened from now on; each instance
 * keeps its own. own_set() and own_number() change one option; own_reset() sets the defaults.
 */
extern struct lli_option_values own_options;
void own_set(const char *key, const char *value);
void own_number(const char *key, uint64_t value);
void own_reset(void);

/* Where packets say how long they are, as transports are told; 0: nowhere. */
extern uint32_t size_at;

/* only=faults: of a decorated transport that was tested bare, the faults alone. */
extern bool only_faults;

/*
 * Takes OPTION=VALUE into common or own_options; or only=faults; or hosts=MTU, which gives each instance a
 * host of its own, with cables of that MTU.
 */
void option_set(char *argument);

/*
 * A directory of this process's own for what lies in shared memory; whether nothing was left there in the
 * end.
 */
void shared_memory_own(void);
bool shared_memory_is_empty(void);

/* Makes the network that the options ask for; false if that cannot be done here. */
bool network_made(void);

/* What was logged since the last open or join. */
extern char log_text[4096];

/* An instance that joined the group both ways. */
struct station {
    void *instance;
    int host; /* of those of hosts.h, if there are any */
    struct lli_caps caps;
    struct llm_options options;
    struct lli_option_values values;
    lli_handle send;
    lli_handle receive;
    uint64_t *once; /* over shm+X, which brings packets twice: those that came once */
    uint32_t once_count;
};

/* Opens without joining anything; nothing is left behind on failure. */
int instance_open(struct station *station, const char *at, const struct llm_options *options);
/* Opens at the host where the thread is, in station->instance, with station->options. */
int station_open_here(struct station *station, const char *at);
int station_join(struct station *station, const char *at, uint16_t number, enum lli_join_mode mode,
                 lli_handle *handle);
void station_open_with(struct station *station, const struct llm_options *options);
void station_open(struct station *station);
void station_close(struct station *station);
uint64_t station_counter(const struct station *station, const char *name);

/* Memory to post from; the test ends the region. */
void station_region(struct station *station, void *base, size_t size);
lli_handle station_peer(struct station *from, struct station *to);

void station_flush(struct station *station);
void station_send(struct station *station, lli_handle to, const void *data, size_t size);

/* Fetches until there is a packet, up to a time. */
int station_await(struct station *station, struct lli_in *packets, int max, uint64_t wait_ns);

/* Expects one packet, and that it is this one. */
void station_expect(struct station *station, lli_handle from, const void *data, size_t size);
void station_expect_nothing(struct station *station);

/* Whether a descriptor becomes readable in a time. */
bool readable(int fd, int timeout_ms);

/* The tests of the faults; how many failed. */
int contract_faults(void);

/* Those of addresses that are forgotten; how many failed. */
int contract_peers(void);

/* Those of packets that find no room, where a transport knows of any; how many failed. */
int contract_drops(void);

/* Those of packets that are made where they will lie, where a transport has that; how many failed. */
int contract_slot(void);

/* Those of child processes; how many failed. */
int contract_fork(void);

#endif
