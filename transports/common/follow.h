/* SPDX-License-Identifier: Apache-2.0 */
/* Interface monitoring: link and address changes reported by rtnetlink(7). */
#ifndef LLI_FOLLOW_H
#define LLI_FOLLOW_H

#include "ip.h"

enum lli_follow_changes {
    LLI_FOLLOW_CHANGED = 1, /* the interface, or one of its addresses in the family */
    LLI_FOLLOW_LOST = 2,    /* the instance's own address was removed; it may have been added again since */
};

struct lli_follow {
    int fd; /* -1: changes are not reported */
    int index;
    sa_family_t family;
    uint32_t number;  /* sequence number of the latest request */
    unsigned changes; /* seen while reading the answer to a request */
};

/* Address of an interface and its broadcast address; family 0 if there is none. */
struct lli_follow_address {
    union lli_ip_address address;
    union lli_ip_address broadcast;
};

/*
 * Opens a socket in the calling thread's network namespace. A failure is logged only: no changes are reported
 * then.
 */
void lli_follow_open(struct lli_follow *follow, const struct lli_log *log, const char *scheme,
                     const struct lli_ip_interface *interface);
void lli_follow_close(struct lli_follow *follow);

/*
 * Returns changes since the previous call, as enum lli_follow_changes. Takes one system call if there are
 * none.
 */
unsigned lli_follow_changes(struct lli_follow *follow, const union lli_ip_address *own);

/*
 * Finds the source address to use on the interface: the current one if it is still configured, else another
 * one, preferably not link-local. Returns false if the kernel did not answer. found->address has family 0 if
 * there is none.
 */
bool lli_follow_address(struct lli_follow *follow, const union lli_ip_address *own,
                        struct lli_follow_address *found);

#endif
