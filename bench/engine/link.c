/* SPDX-License-Identifier: Apache-2.0 */
/* Services for adapters that do not depend on the measurement. */
#define _GNU_SOURCE
#include <poll.h>
#include <time.h>

#include <llm/llm.h>

#include "../adapters/adapter.h"
#include "control.h"

struct adapter_link adapter_link_of(const struct control *control, bool near)
{
    /* Aeron wants odd ones and takes the even ones too */
    static const char *const multicast[] = {"239.192.7.1", "239.192.7.3"};
    static const char *const names[] = {"there", "back"};
    const char *common = control_text(control, "common", "");
    const char *const *groups = *common != '\0' ? names : multicast;

    return (struct adapter_link){
        .near = near,
        .throughput = control_is(control, "work", "throughput"),
        .reads_all = control_is(control, "read", "all"),
        .small = control_flag(control, "small"),
        .rate = control_number(control, "rate", 0),
        .size = (size_t)control_number(control, "size", 0),
        .variant = control_text(control, "variant", ""),
        .interface = control_text(control, "interface", ""),
        .address = control_text(control, "address", ""),
        .peer_address = control_text(control, "peer_address", ""),
        .directory = control_text(control, "directory", ""),
        .common = common,
        .send_group = groups[!near],
        .receive_group = groups[near],
        .send_port = near ? 7101 : 7102,
        .receive_port = near ? 7102 : 7101,
        .send = control_text(control, "send", ""),
        .receive = control_text(control, "receive", ""),
        .raw_send = control_text(control, "raw_send", ""),
        .raw_receive = control_text(control, "raw_receive", ""),
        .raw_aead = control_text(control, "raw_aead", ""),
        .raw_suite = control_text(control, "raw_suite", ""),
        .index = (unsigned)control_number(control, "index", 0),
        .others = (unsigned)control_number(control, "others", 1),
    };
}

void adapter_sleep(struct pollfd *fds, unsigned count, uint64_t until)
{
    const uint64_t now = llm_clock(), left = until > now ? until - now : 0;
    const struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000),
                                     .tv_nsec = (long)(left % 1000000000)};

    (void)ppoll(fds, count, &timeout, NULL);
}
