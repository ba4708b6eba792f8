/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of the AF_XDP transport: refused opens, and interfaces that change or are removed. */
#define _GNU_SOURCE
#include "rig.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../hosts.h"
#include "../network.h"
#include "../patience.h"
#include "xdp_program.h"

/* ------------------------------------------------------------------------------------------------ refused */

static void expect_refused(const struct llm_options *options, int error, const char *text)
{
    struct station station;

    assert_int_equal(instance_open(&station, GROUP, options), error);
    expect_logged(text);
}

static void an_interface_has_one_instance(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station first, second = {.host = -1, .options = options, .values = own_options};

    (void)state;
    must_open(&first, &options);
    second.instance = calloc(1, transport->size);
    assert_non_null(second.instance);
    hosts_enter_again(first.host);
    assert_int_equal(station_open_here(&second, GROUP), LLM_EADDRINUSE);
    hosts_leave();
    expect_logged("has an XDP program already");
    free(second.instance);
    station_close(&first);
}

/*
 * Attaches a program to an interface of this namespace, or removes it with -1, as tools do, which leave it
 * attached when they exit.
 */
static bool attach_as_a_tool(const char *interface, int program, uint32_t flags)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
        struct nlattr xdp;
        struct nlattr fd_head;
        int32_t fd;
        struct nlattr flags_head;
        uint32_t flags;
    } request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = RTM_SETLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_index = (int)if_nametoindex(interface)},
        .xdp = {sizeof request - offsetof(__typeof__(request), xdp), NLA_F_NESTED | IFLA_XDP},
        .fd_head = {sizeof(struct nlattr) + sizeof(int32_t), IFLA_XDP_FD},
        .fd = program,
        .flags_head = {sizeof(struct nlattr) + sizeof(uint32_t), IFLA_XDP_FLAGS},
        .flags = flags,
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        uint8_t rest[512];
    } answer;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    bool good = fd >= 0 && send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request &&
                recv(fd, &answer, sizeof answer, 0) >= (ssize_t)(sizeof answer.head + sizeof answer.error) &&
                answer.head.nlmsg_type == NLMSG_ERROR && answer.error.error == 0;

    if (fd >= 0)
        close(fd);
    return good;
}

/* In every mode of the other program and of the option. */
static void a_program_of_another_tool_is_named_and_not_removed(void **state)
{
    static const uint32_t places[] = {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
    static const char *const modes[] = {"auto", "native", "generic"};
    const struct lli_xdp_program_config config = {.family = AF_INET, .groups_max = 4, .queues = 1};
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct lli_xdp_program other;
    struct station station;

    (void)state;
    assert_int_equal(lli_xdp_program_init(&other, &config), 0);
    for (size_t i = 0; i < 2 * 3; i++) {
        hosts_enter_again(0);
        assert_true(attach_as_a_tool(HOSTS_INTERFACE, other.code, places[i / 3]));
        hosts_leave();
        own_set("xdp_mode", modes[i % 3]);
        expect_refused(&options, LLM_EADDRINUSE, "has an XDP program already");
        expect_logged("ip link set " HOSTS_INTERFACE " xdp off");
        hosts_enter_again(0);
        assert_true(network_command("ip -d link show " HOSTS_INTERFACE " | grep -q prog/xdp"));
        assert_true(attach_as_a_tool(HOSTS_INTERFACE, -1, places[i / 3]));
        hosts_leave();
    }
    lli_xdp_program_fini(&other);
    must_open(&station, &options);
    station_close(&station);
}

static void wrong_options_are_refused_by_value(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);

    (void)state;
    own_set("xdp_mode", "driver");
    expect_refused(&options, LLM_EOPTION, "xdp_mode=driver");
    options = options_on(HOSTS_INTERFACE);
    own_set("xdp_zero_copy", "yes");
    expect_refused(&options, LLM_EOPTION, "xdp_zero_copy=yes");
    own_set("xdp_zero_copy", "on");
    expect_refused(&options, LLM_EOPTION, "the driver has no zero copy"); /* veth has none */
    own_set("xdp_mode", "generic");
    expect_refused(&options, LLM_EOPTION, "none in generic mode");
    options = options_on(HOSTS_INTERFACE);
    own_set("xdp_queue", "first");
    expect_refused(&options, LLM_EOPTION, "xdp_queue=first");
    own_set("xdp_queue", "1x");
    expect_refused(&options, LLM_EOPTION, "xdp_queue=1x");
    own_set("xdp_queue", "4000");
    expect_refused(&options, LLM_EOPTION, "has queues 0 to");
}

static void an_interface_other_than_ethernet_is_refused(void **state)
{
    const struct llm_options options = options_on("lo");

    (void)state;
    expect_refused(&options, LLM_EINTERFACE, "lo is no Ethernet");
}

static void unavailable_time_stamps_are_logged(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;

    (void)state;
    options.timestamps = 1;
    must_open(&station, &options);
    expect_logged("timestamps=1");
    station_close(&station);
}

/* Opens without some capabilities. */
static int open_without(uint64_t capabilities, const struct llm_options *options)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2], some[2];
    struct station station;
    int status;

    assert_int_equal(syscall(SYS_capget, &header, all), 0);
    memcpy(some, all, sizeof some);
    some[0].effective &= ~(uint32_t)capabilities;
    some[1].effective &= ~(uint32_t)(capabilities >> 32);
    hosts_enter_again(0);
    station = (struct station){.host = -1, .options = *options, .values = own_options};
    station.instance = calloc(1, transport->size);
    assert_non_null(station.instance);
    assert_int_equal(syscall(SYS_capset, &header, some), 0);
    status = station_open_here(&station, GROUP);
    assert_int_equal(syscall(SYS_capset, &header, all), 0);
    hosts_leave();
    free(station.instance);
    return status;
}

#define CAPABILITY(name) (UINT64_C(1) << (name))

static void missing_privileges_are_named(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);

    (void)state;
    assert_int_equal(open_without(CAPABILITY(CAP_NET_RAW), &options), LLM_EACCESS);
    expect_logged("CAP_NET_RAW");
    assert_int_equal(open_without(CAPABILITY(CAP_BPF) | CAPABILITY(CAP_SYS_ADMIN), &options), LLM_EACCESS);
    expect_logged("CAP_BPF");
    assert_int_equal(open_without(CAPABILITY(CAP_NET_ADMIN) | CAPABILITY(CAP_SYS_ADMIN), &options),
                     LLM_EACCESS);
    expect_logged("CAP_NET_ADMIN");
}

static void a_limit_of_locked_memory_is_named(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct rlimit before, little;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    little = (struct rlimit){.rlim_cur = 65536, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    assert_int_equal(open_without(CAPABILITY(CAP_IPC_LOCK), &options), LLM_ELIMIT);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    expect_logged("ulimit -l");
}

/* ---------------------------------------------------------------------------------- cable that is removed */

/*
 * Creates a cable from this namespace to another host, with this many queues: near, 10.81.0.1, and far,
 * 10.81.0.2.
 */
static void cable_make(int mtu, int queues)
{
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    char text[512];

    assert_true(home >= 0);
    hosts_enter_again(FAR_HOST);
    snprintf(
        text, sizeof text,
        "ip link add far mtu %d numrxqueues %d numtxqueues %d type veth peer name near mtu %d numrxqueues %d "
        "numtxqueues %d &&"
        " ip address add 10.81.0.2/24 dev far && ip link set far up && ip link set near netns /proc/%d/fd/%d",
        mtu, queues, queues, mtu, queues, queues, (int)getpid(), home);
    assert_true(network_command(text));
    hosts_leave();
    close(home);
    assert_true(network_command("ip address add 10.81.0.1/24 dev near && ip link set near up"));
}

static void cable_pull(void)
{
    assert_true(network_command("ip link del near"));
}

/* Opens an instance at one end of the cable. */
static void end_open(struct station *station, int place, const struct llm_options *options)
{
    memset(station, 0, sizeof *station);
    station->host = place;
    station->options = *options;
    station->values = own_options;
    station->instance = calloc(1, transport->size);
    assert_non_null(station->instance);
    hosts_enter_again(place);
    if (station_open_here(station, GROUP) != 0)
        fail_msg("open: %s", log_text);
    hosts_leave();
}

static void ends_open(struct station *near, const struct llm_options *at_near, struct station *far,
                      const char *queue_far)
{
    struct llm_options at_far = *at_near;

    strcpy(at_far.interface, "far");
    end_open(near, -1, at_near);
    must_join(near, LLI_JOIN_RECEIVE);
    own_set("xdp_queue", queue_far);
    end_open(far, FAR_HOST, &at_far);
}

static void end_close(struct station *station)
{
    transport->close(station->instance);
    free(station->instance);
}

static void ends_close(struct station *near, struct station *far)
{
    end_close(near);
    end_close(far);
    cable_pull();
}

/* A transmitter sends by its own queue, and veth delivers to the queue of the same number. */
static void packets_of_queues_without_a_socket_go_to_the_kernel(void **state)
{
    static const struct {
        const char *near;
        const char *far;
        int frames;
    } queues[] = {{"0", "0", 1}, {"0", "1", 0},   {"1", "1", 1},
                  {"1", "0", 0}, {"all", "0", 1}, {"all", "1", 1}};
    const struct llm_options options = options_on("near");
    struct station near, far;

    (void)state;
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        cable_make(1500, 2);
        own_set("xdp_queue", queues[i].near);
        ends_open(&near, &options, &far, queues[i].far);
        station_send(&far, must_join(&far, LLI_JOIN_SEND), "by a queue", 10);
        assert_int_equal(heard(&near), 1);
        assert_int_equal(frames_received(&near), queues[i].frames);
        ends_close(&near, &far);
    }
}

/* Loads a program that the kernel attaches to no interface. */
static int program_of_another_kind(void)
{
    struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attribute = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insn_cnt = 2};

    attribute.insns = (uintptr_t)code;
    attribute.license = (uintptr_t) "GPL";
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attribute, sizeof attribute);
}

static void note_text(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static void the_refused_mode_is_not_proposed_as_remedy(void **state)
{
    static const struct {
        enum lli_xdp_mode mode;
        const char *remedy;
    } tries[] = {{LLI_XDP_NATIVE, "takes no native program at its MTU of 1500: Invalid argument; 'ip link "
                                  "set near mtu 1500', or xdp_mode="
                                  "generic"},
                 {LLI_XDP_GENERIC, "takes no generic program at its MTU of 1500: Invalid argument; 'ip link "
                                   "set near mtu 1500', or udp://"}};
    const struct lli_log log = {.function = note_text, .level = LLM_LEVEL_ERROR};
    struct lli_ip_interface interface = {.name = "near", .mtu = 1500};
    struct lli_xdp_program program = {
        .link = -1, .code = program_of_another_kind(), .queues = -1, .groups = -1};

    (void)state;
    cable_make(1500, 1);
    interface.index = (int)if_nametoindex("near");
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        enum lli_xdp_mode mode = tries[i].mode;

        assert_int_equal(lli_xdp_program_attach(&program, &log, &interface, &mode), LLM_EOPTION);
        expect_logged(tries[i].remedy);
    }
    lli_xdp_program_fini(&program);
    cable_pull();
}

static void an_mtu_beyond_all_buffers_is_refused(void **state)
{
    const struct llm_options options = options_on("near");
    struct station station = {.host = -1, .options = options, .values = own_options};

    (void)state;
    cable_make(65535, 1);
    station.instance = calloc(1, transport->size);
    assert_non_null(station.instance);
    assert_int_equal(station_open_here(&station, GROUP), LLM_EOPTION);
    expect_logged("an MTU of 65535");
    expect_logged("mtu 9000");
    free(station.instance);
    cable_pull();
}

/* Packets of several chunks stay in their queue while no memory is left to reassemble them. */
static void large_packets_wait_for_the_release_of_lent_packets(void **state)
{
    enum { SENT = 300 };
    static const uint8_t data[8000];
    static struct lli_in packets[SENT + 1];
    const struct llm_options options = options_on("near");
    struct station near, far;
    lli_handle to;
    int lent = 0, count;

    (void)state;
    cable_make(9000, 1);
    ends_open(&near, &options, &far, "all");
    to = must_join(&far, LLI_JOIN_SEND);
    for (int i = 0; i < SENT; i++)
        station_send(&far, to, data, sizeof data);
    while ((count = station_await(&near, packets + lent, SENT + 1 - lent, QUIET_NS)) > 0)
        lent += count;
    assert_in_range(lent, BURST, SENT - 1);
    transport->release(near.instance, packets, lent);
    assert_int_equal(lent + heard(&near), SENT);
    assert_int_equal(frames_received(&near), SENT);
    ends_close(&near, &far);
}

static void an_interface_loses_packets_while_it_is_down(void **state)
{
    enum { SENT = 2000 }; /* more than there are chunks to send from */
    const struct llm_options options = options_on("near");
    struct lli_out packet = {(const uint8_t *)"down", 4, 0};
    struct station near, far;

    (void)state;
    cable_make(1500, 1);
    ends_open(&near, &options, &far, "all");
    packet.to = must_join(&far, LLI_JOIN_SEND);
    hosts_enter_again(FAR_HOST);
    assert_true(network_command("ip link set far down"));
    for (int i = 0; i < SENT; i++) {
        assert_int_equal(transport->post(far.instance, &packet, 1), 1);
        assert_int_equal(transport->flush(far.instance), 0);
    }
    assert_int_equal(transport->reap(far.instance), SENT);
    assert_true(station_counter(&far, "xdp_send_errors") >= SENT - 1);
    assert_true(network_command("ip link set far up"));
    hosts_leave();
    do
        station_send(&far, packet.to, "up", 2);
    while (heard(&near) == 0);
    ends_close(&near, &far);
}

static void a_removed_interface_blocks_no_call(void **state)
{
    const struct llm_options options = options_on("near");
    struct lli_out packet = {(const uint8_t *)"gone", 4, 0};
    struct lli_in in;
    struct station near, far;

    (void)state;
    cable_make(1500, 1);
    ends_open(&near, &options, &far, "all");
    packet.to = must_join(&near, LLI_JOIN_SEND);
    cable_pull();
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(transport->post(near.instance, &packet, 1), 1);
        assert_int_equal(transport->flush(near.instance), 0);
        assert_in_range(transport->receive(near.instance, &in, 1), 0, 1);
    }
    assert_true(station_counter(&near, "xdp_send_errors") >= 1999);
    transport->arm(near.instance);
    end_close(&near);
    end_close(&far);
    near = (struct station){.host = -1, .options = options, .values = own_options};
    near.instance = calloc(1, transport->size);
    assert_non_null(near.instance);
    assert_int_equal(station_open_here(&near, GROUP), LLM_EINTERFACE);
    expect_logged("near");
    free(near.instance);
}

/* A receiver that waits for messages on an interface, and its log. */
struct waiting {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct llm_transmitter *transmitter;
    unsigned told;
    char text[256];
};

static void note_line(void *arg, enum llm_level level, const char *text)
{
    struct waiting *waiting = arg;

    (void)level;
    waiting->told++;
    snprintf(waiting->text, sizeof waiting->text, "%s", text);
}

static void waiting_open(struct waiting *waiting, const char *with, bool sends)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    char channel[128];

    memset(waiting, 0, sizeof *waiting);
    llm_context_options_init(&options);
    options.log = note_line;
    options.log_arg = waiting;
    llm_receiver_handlers_init(&handlers);
    snprintf(channel, sizeof channel,
             "%s://" GROUP ":%d?interface=near&rcvbuf_bytes=65536&sndbuf_bytes=65536", with, PORT + sends);
    assert_int_equal(llm_context_open(&options, &waiting->context), 0);
    if (sends)
        assert_int_equal(llm_transmitter_open(waiting->context, channel, NULL, NULL, &waiting->transmitter),
                         0);
    else
        assert_int_equal(llm_receiver_open(waiting->context, channel, NULL, &handlers, &waiting->receiver),
                         0);
    assert_string_equal(waiting->text, "");
}

/* Polls until something was logged, with or without sleeping in between; returns the number of polls. */
static unsigned waiting_is_told(struct waiting *waiting, bool sleeps)
{
    const uint64_t give_up_at = llm_clock() + patience(20000000000u);
    unsigned polls = 0;

    for (; waiting->told == 0 && llm_clock() < give_up_at; polls++) {
        struct pollfd fds = {.fd = sleeps ? llm_context_fd(waiting->context) : -1, .events = POLLIN};
        const uint64_t now = llm_clock(), at = llm_context_deadline(waiting->context);

        if (sleeps && at > now)
            poll(&fds, 1, at == UINT64_MAX ? -1 : (int)((at - now) / 1000000 + 1));
        assert_int_equal(llm_poll(waiting->context), 0);
    }
    assert_non_null(
        strstr(waiting->text, "udp: interface near is gone, and nothing is sent or received by it any more"));
    assert_non_null(
        strstr(waiting->text, "close the channels on it, and open them again once 'ip link' lists it"));
    return polls;
}

static void waiting_close(struct waiting *waiting)
{
    assert_int_equal(waiting->told, 1);
    assert_int_equal(llm_context_close(&waiting->context), 0);
}

/* The receiver uses frames or UDP, sleeps between polls or not, and neither sends nor receives packets. */
static void a_receiver_is_informed_of_a_removed_interface(void **state)
{
    struct waiting frames, packets, sender;

    (void)state;
    cable_make(1500, 1);
    waiting_open(&frames, "xdp", false);
    waiting_open(&packets, "udp", false);
    waiting_open(&sender, "udp", true);
    cable_pull();
    assert_in_range(waiting_is_told(&frames, true), 1, 100);
    waiting_is_told(&packets, false);
    waiting_is_told(&sender, false);
    /* Logged once. */
    for (const uint64_t until = llm_clock() + UINT64_C(1100000000); llm_clock() < until;) {
        (void)llm_poll(frames.context);
        (void)llm_poll(packets.context);
        (void)llm_poll(sender.context);
    }
    waiting_close(&sender);
    waiting_close(&packets);
    waiting_close(&frames);
}

static bool is_attached(void)
{
    return network_command("ip -d link show near | grep -q prog/xdp");
}

/* SIGKILL leaves the process no time to clean up. */
static void a_killed_process_leaves_no_program(void **state)
{
    const struct llm_options options = options_on("near");
    struct station near, far;
    int ready[2];
    char byte;
    pid_t child;

    (void)state;
    cable_make(1500, 1);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        end_open(&near, -1, &options);
        must_join(&near, LLI_JOIN_RECEIVE);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(is_attached());
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(network_command(
        "for i in $(seq 200); do ip -d link show near | grep -q prog/xdp || exit 0; sleep 0.01; done;"
        " exit 1"));
    ends_open(&near, &options, &far, "all"); /* for which the queue is free */
    station_send(&far, must_join(&far, LLI_JOIN_SEND), "again", 5);
    assert_int_equal(heard(&near), 1);
    assert_int_equal(frames_received(&near), 1);
    close(ready[0]);
    close(ready[1]);
    end_close(&near);
    assert_false(is_attached());
    end_close(&far);
    cable_pull();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_has_one_instance),
        cmocka_unit_test(a_program_of_another_tool_is_named_and_not_removed),
        cmocka_unit_test(wrong_options_are_refused_by_value),
        cmocka_unit_test(an_interface_other_than_ethernet_is_refused),
        cmocka_unit_test(unavailable_time_stamps_are_logged),
        cmocka_unit_test(missing_privileges_are_named),
        cmocka_unit_test(a_limit_of_locked_memory_is_named),
        cmocka_unit_test(packets_of_queues_without_a_socket_go_to_the_kernel),
        cmocka_unit_test(the_refused_mode_is_not_proposed_as_remedy),
        cmocka_unit_test(an_mtu_beyond_all_buffers_is_refused),
        cmocka_unit_test(large_packets_wait_for_the_release_of_lent_packets),
        cmocka_unit_test(an_interface_loses_packets_while_it_is_down),
        cmocka_unit_test(a_removed_interface_blocks_no_call),
        cmocka_unit_test(a_receiver_is_informed_of_a_removed_interface),
        cmocka_unit_test(a_killed_process_leaves_no_program),
    };

    return rig_run(tests, sizeof tests / sizeof tests[0]);
}
