/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the bypass transport share: the test stack of tests/shim that is part of the program, and
 * numbered packets.
 */
#ifndef TESTS_BYPASS_RIG_H
#define TESTS_BYPASS_RIG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../../transports/bypass/bypass.h"
#include "../contract.h"
#include "../network.h"

#define GROUP "239.193.7.5"

enum { PORT = 17005 };

/* Of the test stack. */
extern const char *const stack_name;
extern atomic_ulong stack_warm_sends;
extern atomic_ulong stack_lent;
extern atomic_ulong stack_polls;

bool is_onload(void);

/* The name of a thing in each stack. */
const char *either(const char *of_onload, const char *of_vma);

void expect_logged(const char *text);
void expect_nothing_logged(void);

/*
 * The next definition of a function, past SHIM_HIDE, which hides functions of this program from the library.
 */
void *__real_dlsym(void *handle, const char *name);

/*
 * Packets that hold a number each: sends them one by one; checks one; takes some and keeps them; takes some.
 */
void send_numbers(struct station *from, uint32_t first, uint32_t count);
void expect_number(const struct lli_in *packet, uint32_t number);
void take_numbers(struct station *to, struct lli_in *packets, uint32_t first, uint32_t count);
void expect_numbers(struct station *to, uint32_t first, uint32_t count);

/* What a stack was told to do lasts no longer than its test, and nothing stays lent. */
int end_oddities(void **state);

#define ODD(name) cmocka_unit_test_teardown(name, end_oddities)

/* Before the tests: a network of their own; false if there can be none. */
bool rig_set_up(void);

#endif
