/* SPDX-License-Identifier: Apache-2.0 */
/* Bare multicast over RDMA: UD queue pairs with verbs, one message a packet. */
#ifndef BENCH_RAW_ROCE_H
#define BENCH_RAW_ROCE_H

#include "raw.h"

extern const struct raw_scheme raw_roce;

#endif
