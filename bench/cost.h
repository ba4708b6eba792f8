/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA device of bench/cost_device.c, for the program that counts instructions. */
#ifndef BENCH_COST_H
#define BENCH_COST_H

enum cost_end { COST_NEAR, COST_FAR };

struct cost_device {
    void (*open)(void);
    void (*opened)(enum cost_end end); /* an end was opened */
    void (*turn)(enum cost_end end);   /* the end runs next: what the other one sent arrives */
};

/* At no address in the program that is linked without a device. */
extern const struct cost_device cost_device __attribute__((weak));

#endif
