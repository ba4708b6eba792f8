/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standing of a receiver at a transmitter (docs/protocol.md section 7.2): each step reduces its service
 * further. The slow-receiver policy decides it, and the member table stores it.
 */
#ifndef LLI_STANDING_H
#define LLI_STANDING_H

/* As in NOTICE. */
enum lli_standing {
    LLI_STANDING_FINE = 0,
    LLI_STANDING_WARNED,
    LLI_STANDING_UNICAST,   /* no repair goes to the group for its sake */
    LLI_STANDING_SUSPENDED, /* its NAKs are not answered, and flow control does not wait for it */
    LLI_STANDING_EXPELLED,  /* it has to leave the session */
};

#endif
