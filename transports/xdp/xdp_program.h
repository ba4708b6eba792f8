/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XDP program of an interface, and its maps.
 *
 * The kernel runs it for every frame. It redirects frames with UDP packets to the joined groups to the AF_XDP
 * socket of their queue, and passes all others on to the kernel: other groups and ports, ARP, IGMP,
 * fragments, packets with IP options, tagged frames, merged packets, and all frames of queues without a
 * socket.
 */
#ifndef LLI_XDP_PROGRAM_H
#define LLI_XDP_PROGRAM_H

#include "common/ip.h"

struct lli_xdp_program {
    int groups; /* map of groups and ports */
    int queues; /* map of AF_XDP sockets by queue */
    int code;   /* the program */
    int link;   /* attachment to the interface; ends with this descriptor, however the process ends */
};

/* Attachment modes. */
enum lli_xdp_mode {
    LLI_XDP_AUTO,    /* native if the driver supports it and is not veth; else generic */
    LLI_XDP_NATIVE,  /* run by the driver */
    LLI_XDP_GENERIC, /* run by the kernel, for every driver */
};

struct lli_xdp_program_config {
    const struct lli_log *log;
    sa_family_t family;
    uint32_t queues; /* of the interface */
    uint32_t groups_max;
    bool frags;       /* frames may have several pieces */
    uint32_t size_at; /* offset of the size field in packets; 0: none */
};

/*
 * Loads the program without attaching it. fini() is required in any case. LLM_EACCESS, LLM_ENOMEM,
 * LLM_ESYSTEM.
 */
int lli_xdp_program_init(struct lli_xdp_program *program, const struct lli_xdp_program_config *config);
void lli_xdp_program_fini(struct lli_xdp_program *program);

/*
 * Attaches the program and returns the resulting mode. LLM_EADDRINUSE: the interface has a program.
 * LLM_EINTERFACE, LLM_EACCESS.
 */
int lli_xdp_program_attach(struct lli_xdp_program *program, const struct lli_log *log,
                           const struct lli_ip_interface *interface, enum lli_xdp_mode *mode);

/* Redirects frames of a queue to an AF_XDP socket, until that is closed. LLM_ESYSTEM. */
int lli_xdp_program_queue(struct lli_xdp_program *program, const struct lli_log *log, uint32_t queue,
                          int socket);

/* Adds or removes a group and port. LLM_ESYSTEM. */
int lli_xdp_program_group(struct lli_xdp_program *program, const struct lli_log *log,
                          const union lli_ip_address *group, bool on);

#endif
