/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the bypass transport: the test stack of tests/shim that is linked into the program,
 * and numbered packets.
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

/* Name of the test stack. */
extern const char *const stack_name;
extern atomic_ulong stack_warm_sends;
extern atomic_ulong stack_lent;
extern atomic_ulong stack_polls;

bool is_onload(void);

/* Returns the argument for the test stack in use. */
const char *either(const char *of_onload, const char *of_vma);

void expect_logged(const char *text);
void expect_nothing_logged(void);

/*
 * The next definition of a function, past SHIM_HIDE, which hides functions of this program from the library.
 */
void *__real_dlsym(void *handle, const char *name);

/*
 * Packets that contain a number each: sends them one by one; checks one; receives some without releasing
 * them; receives some.
 */
void send_numbers(struct station *from, uint32_t first, uint32_t count);
void expect_number(const struct lli_in *packet, uint32_t number);
void take_numbers(struct station *to, struct lli_in *packets, uint32_t first, uint32_t count);
void expect_numbers(struct station *to, uint32_t first, uint32_t count);

/* Resets the test stack's faults after each test, and checks that no packet is still lent. */
int end_oddities(void **state);

#define ODD(name) cmocka_unit_test_teardown(name, end_oddities)

/* Creates a network namespace before the tests; false if that is not possible. */
bool rig_set_up(void);

#endif
