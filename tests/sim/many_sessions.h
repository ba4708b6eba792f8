/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_MANY_SESSIONS_H
#define SIM_MANY_SESSIONS_H

#include <stdint.h>

struct many_sessions_result {
    uint64_t sent, received, lost;
    double ns_per_message; /* of the receiver's thread, with the copy of the packet */
};

/* Each of so many sessions sends in turn; the receiver reads 64 messages at a time. */
struct many_sessions_result many_sessions_run(uint32_t sessions, uint64_t messages);

#endif
