/* SPDX-License-Identifier: Apache-2.0 */
/* A rest between the polls of a test, as many tests run side by side. */
#ifndef TESTS_REST_H
#define TESTS_REST_H

#include <threads.h>
#include <time.h>

/* Sleeps for 50 us if the polls delivered nothing. */
static inline void rest_after(int delivered)
{
    if (delivered == 0)
        (void)thrd_sleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

#endif
