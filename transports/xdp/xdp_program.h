/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program of an interface, and the maps that it looks into.
 *
 * The kernel runs it for every frame. It hands those of UDP packets to one of its groups to the AF_XDP socket of the frame's
 * queue, and passes all else on to the kernel: other groups and ports, ARP, IGMP, fragments, packets with IP options, tagged
 * frames, several packets in one piece, and everything of a queue whose socket is gone or never was.
 */
#ifndef LLI_XDP_PROGRAM_H
#define LLI_XDP_PROGRAM_H

#include "common/ip.h"

struct lli_xdp_program {
    int groups; /* map: groups and ports */
    int queues; /* map: AF_XDP sockets by queue */
    int code;   /* the program */
    int link;   /* its place at the interface, which ends with this descriptor however the process ends */
};

/* How a program comes to see frames. */
enum lli_xdp_mode {
    LLI_XDP_AUTO,    /* the better: native if the driver can, but of veth; else generic */
    LLI_XDP_NATIVE,  /* run by the driver */
    LLI_XDP_GENERIC, /* run by the kernel, for every driver */
};

struct lli_xdp_program_config {
    const struct lli_log *log;
    sa_family_t family;
    uint32_t queues;     /* of the interface */
    uint32_t groups_max;
    bool frags;          /* frames may lie in several pieces */
    uint32_t size_at;    /* where packets say how long they are; 0: nowhere */
};

/* Loads it, without an interface. fini() is due in any case. LLM_EACCESS, LLM_ENOMEM, LLM_ESYSTEM. */
int lli_xdp_program_init(struct lli_xdp_program *program, const struct lli_xdp_program_config *config);
void lli_xdp_program_fini(struct lli_xdp_program *program);

/* Attaches it, and says which mode that came to. LLM_EADDRINUSE: the interface has a program. LLM_EINTERFACE, LLM_EACCESS. */
int lli_xdp_program_attach(struct lli_xdp_program *program, const struct lli_log *log, const struct lli_ip_interface *interface,
                           enum lli_xdp_mode *mode);

/* Gives frames of a queue to an AF_XDP socket, until that is closed. LLM_ESYSTEM. */
int lli_xdp_program_queue(struct lli_xdp_program *program, const struct lli_log *log, uint32_t queue, int socket);

/* Takes packets to a group and its port, or takes them no longer. LLM_ESYSTEM. */
int lli_xdp_program_group(struct lli_xdp_program *program, const struct lli_log *log, const union lli_ip_address *group, bool on);

#endif
