/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of hops and rates, over any adapter: near sends and takes times, far sends back or counts. */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#include "../adapters/adapter.h"
#include "control.h"

/* Opens the adapters, up to two, of which the second needs channels of its own, and serves requests until there are no more. */
int ends_run(const struct control *control, const struct adapter *first, const struct adapter *second);

#endif
