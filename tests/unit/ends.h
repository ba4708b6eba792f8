/* SPDX-License-Identifier: Apache-2.0 */
/* A transmitter and a receiver of its session, between which a test carries packets. */
#ifndef TESTS_ENDS_H
#define TESTS_ENDS_H

#include "session.h"

static struct transmitter t;
static struct lli_tx *const tx = &t.tx;
static struct receiver r;
static struct lli_rx *const rx = &r.rx;

static inline int down(void **state)
{
    (void)state;
    receiver_unmake(&r);
    free(t.memory);
    return 0;
}

#endif
