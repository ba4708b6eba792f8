/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of an interface: its link and its addresses, as the kernel reports them by rtnetlink(7). */
#ifndef LLI_FOLLOW_H
#define LLI_FOLLOW_H

#include "ip.h"

enum lli_follow_changes {
    LLI_FOLLOW_CHANGED = 1, /* something of the interface, or of its addresses in the family */
    LLI_FOLLOW_LOST = 2,    /* the instance's own address was taken away; perhaps it is back already */
};

struct lli_follow {
    int fd; /* -1: changes are not known of */
    int index;
    sa_family_t family;
    uint32_t number;  /* of the latest question */
    unsigned changes; /* noted while something else was read */
};

/* An address that an interface has, and the broadcast address that belongs to it; family 0 if there is none. */
struct lli_follow_address {
    union lli_ip_address address;
    union lli_ip_address broadcast;
};

/* In the namespace of the thread. Where that fails there are no changes: logged, as nothing else depends on it. */
void lli_follow_open(struct lli_follow *follow, const struct lli_log *log, const char *scheme, const struct lli_ip_interface *interface);
void lli_follow_close(struct lli_follow *follow);

/* Changes since the latest call, of enum lli_follow_changes. One system call where there are none. */
unsigned lli_follow_changes(struct lli_follow *follow, const union lli_ip_address *own);

/*
 * The address of the interface that packets may come from: own, if it has that still; else another, not a link-local one if it has
 * others. False: the kernel did not tell. found->address has family 0 where there is none.
 */
bool lli_follow_address(struct lli_follow *follow, const union lli_ip_address *own, struct lli_follow_address *found);

#endif
