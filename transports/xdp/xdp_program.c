/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "xdp_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1u << 5) /* Linux 5.18 */
#endif

/* Key of the map of groups, in network order. */
struct group_key_v4 {
    uint32_t address;
    uint16_t port;
    uint16_t none;
};

struct group_key_v6 {
    uint32_t address[4];
    uint16_t port;
    uint16_t none;
};

union group_key {
    struct group_key_v4 v4;
    struct group_key_v6 v6;
};

static uint32_t group_key_size(sa_family_t family)
{
    return family == AF_INET ? sizeof(struct group_key_v4) : sizeof(struct group_key_v6);
}

static int program_bpf(enum bpf_cmd command, union bpf_attr *attribute)
{
    return (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
}

/* ----------------------------------------------------------------------------------------------- failures */

/* Error code and remedy for an errno. */
static int program_fail(const struct lli_log *log, const char *what)
{
    if (errno == EPERM || errno == EACCES)
        return lli_fail(
            log, LLM_EACCESS,
            "xdp: %s: %m; it takes CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW of the host, not of a user "
            "namespace: run as "
            "root, or 'setcap cap_bpf,cap_net_admin,cap_net_raw+ep' on the program, or take udp://",
            what);
    if (errno == ENOMEM)
        return lli_fail(log, LLM_ENOMEM, "xdp: %s: %m; free memory, or raise the control group's limit",
                        what);
    if (errno == EMFILE || errno == ENFILE)
        return lli_fail(log, LLM_ELIMIT, "xdp: %s: %m; raise the limit of open files, 'ulimit -n'", what);
    return lli_fail(log, LLM_ESYSTEM,
                    "xdp: %s: %m; this needs Linux 5.11 with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, "
                    "and 6.6 for an MTU above 3442",
                    what);
}

/* ------------------------------------------------------------------------------------------- instructions */

enum { CODE_MAX = 64, JUMPS_MAX = 16 };

/* Program being built. Jumps to its end, where frames are passed to the kernel, are resolved last. */
struct code {
    struct bpf_insn insns[CODE_MAX];
    uint16_t jumps[JUMPS_MAX];
    uint8_t count;
    uint8_t jump_count;
};

static void code_add(struct code *code, struct bpf_insn insn)
{
    code->insns[code->count++] = insn;
}

static void code_load(struct code *code, uint8_t width, uint8_t to, uint8_t from, int16_t at)
{
    code_add(code, (struct bpf_insn){.code = (uint8_t)(BPF_LDX | BPF_MEM | width),
                                     .dst_reg = to & 15u,
                                     .src_reg = from & 15u,
                                     .off = at});
}

static void code_store(struct code *code, uint8_t width, uint8_t to, int16_t at, uint8_t from)
{
    code_add(code, (struct bpf_insn){.code = (uint8_t)(BPF_STX | BPF_MEM | width),
                                     .dst_reg = to & 15u,
                                     .src_reg = from & 15u,
                                     .off = at});
}

static void code_copy(struct code *code, uint8_t to, uint8_t from)
{
    code_add(code, (struct bpf_insn){
                       .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = to & 15u, .src_reg = from & 15u});
}

static void code_number(struct code *code, uint8_t operation, uint8_t to, int32_t number)
{
    code_add(code, (struct bpf_insn){
                       .code = (uint8_t)(BPF_ALU64 | operation | BPF_K), .dst_reg = to & 15u, .imm = number});
}

static void code_jump(struct code *code, struct bpf_insn insn)
{
    code->jumps[code->jump_count++] = code->count;
    code_add(code, insn);
}

static void code_pass_unless(struct code *code, uint8_t value, int32_t number)
{
    code_jump(code,
              (struct bpf_insn){.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = value & 15u, .imm = number});
}

/* Loading a map address takes two instructions. */
static void code_map(struct code *code, uint8_t to, int map)
{
    /* NOLINTNEXTLINE(misc-redundant-expression): two of the three are 0 */
    code_add(code, (struct bpf_insn){.code = BPF_LD | BPF_DW | BPF_IMM,
                                     .dst_reg = to & 15u,
                                     .src_reg = BPF_PSEUDO_MAP_FD,
                                     .imm = map});
    code_add(code, (struct bpf_insn){.code = 0});
}

static void code_call(struct code *code, int32_t function)
{
    code_add(code, (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = function});
}

static void code_exit(struct code *code)
{
    code_add(code, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}

/* ------------------------------------------------------------------------------------------------ program */

/* Offsets of fields in a frame. */
enum { ETHER_TYPE = 12, IP = 14, HEADERS_V4 = 42, HEADERS_V6 = 62, UDP_BYTES = 8 };

/* Registers: the frame is in [FRAME, END); CONTEXT is preserved across calls. */
enum {
    CONTEXT = BPF_REG_6,
    FRAME = BPF_REG_2,
    END = BPF_REG_3,
    AT = BPF_REG_4,
    VALUE = BPF_REG_5,
    STACK = BPF_REG_10
};

/* Requires a frame of at least this length. */
static void program_bounds(struct code *code, int32_t bytes)
{
    code_copy(code, CONTEXT, BPF_REG_1);
    code_load(code, BPF_W, FRAME, CONTEXT, offsetof(struct xdp_md, data));
    code_load(code, BPF_W, END, CONTEXT, offsetof(struct xdp_md, data_end));
    code_copy(code, AT, FRAME);
    code_number(code, BPF_ADD, AT, bytes);
    code_jump(code, (struct bpf_insn){.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = AT, .src_reg = END});
}

static void program_expect(struct code *code, uint8_t width, int16_t at, int32_t number)
{
    code_load(code, width, VALUE, FRAME, at);
    code_pass_unless(code, VALUE, number);
}

/* Stores the port in the key, followed by zeros. */
static void program_port(struct code *code, int16_t headers, int16_t key)
{
    code_load(code, BPF_H, VALUE, FRAME, (int16_t)(headers - 6));
    code_store(code, BPF_H, STACK, key, VALUE);
    code_number(code, BPF_MOV, VALUE, 0);
    code_store(code, BPF_H, STACK, (int16_t)(key + 2), VALUE);
}

/*
 * Requires a frame with a single packet, by its size field: the size of the first of several merged packets
 * is less than the UDP length. Only the kernel can split these.
 */
static void program_single(struct code *code, int16_t headers, uint32_t size_at)
{
    code_load(code, BPF_H, AT, FRAME, (int16_t)(headers - 4));
    code_add(code, (struct bpf_insn){.code = BPF_ALU | BPF_END | BPF_TO_BE, .dst_reg = AT, .imm = 16});
    code_load(code, BPF_H, VALUE, FRAME, (int16_t)(headers + (int16_t)size_at));
    code_add(code, (struct bpf_insn){.code = BPF_ALU | BPF_END | BPF_TO_LE, .dst_reg = VALUE, .imm = 16});
    code_number(code, BPF_ADD, VALUE, UDP_BYTES);
    code_jump(code, (struct bpf_insn){.code = BPF_JMP | BPF_JNE | BPF_X, .dst_reg = VALUE, .src_reg = AT});
}

/* Returns the number of frame bytes that the program reads. */
static int32_t program_reads(int32_t headers, uint32_t size_at)
{
    return size_at == 0 ? headers : headers + (int32_t)size_at + (int32_t)sizeof(uint16_t);
}

static void program_parse_v4(struct code *code, uint32_t size_at)
{
    const int16_t key = -(int16_t)sizeof(struct group_key_v4);

    program_bounds(code, program_reads(HEADERS_V4, size_at));
    program_expect(code, BPF_H, ETHER_TYPE, htons(0x0800));
    program_expect(code, BPF_B, IP, 0x45); /* no options */
    program_expect(code, BPF_B, IP + 9, IPPROTO_UDP);
    code_load(code, BPF_H, VALUE, FRAME, IP + 6);
    code_number(code, BPF_AND, VALUE, htons(0x3fff)); /* no fragment */
    code_pass_unless(code, VALUE, 0);
    code_load(code, BPF_W, VALUE, FRAME, IP + 16);
    code_store(code, BPF_W, STACK, key, VALUE);
    program_port(code, HEADERS_V4, key + 4);
    if (size_at != 0)
        program_single(code, HEADERS_V4, size_at);
}

static void program_parse_v6(struct code *code, uint32_t size_at)
{
    const int16_t key = -(int16_t)sizeof(struct group_key_v6);

    program_bounds(code, program_reads(HEADERS_V6, size_at));
    program_expect(code, BPF_H, ETHER_TYPE, htons(0x86dd));
    program_expect(code, BPF_B, IP + 6, IPPROTO_UDP); /* no extension header, so no fragment */
    for (int16_t word = 0; word < 4; word++) {
        code_load(code, BPF_W, VALUE, FRAME, (int16_t)(IP + 24 + 4 * word));
        code_store(code, BPF_W, STACK, (int16_t)(key + 4 * word), VALUE);
    }
    program_port(code, HEADERS_V6, key + 16);
    if (size_at != 0)
        program_single(code, HEADERS_V6, size_at);
}

/*
 * Redirects a frame of a known group to the socket of its queue, if there is one; passes others to the
 * kernel.
 */
static void program_decide(struct code *code, const struct lli_xdp_program *program, sa_family_t family)
{
    code_map(code, BPF_REG_1, program->groups);
    code_copy(code, BPF_REG_2, STACK);
    code_number(code, BPF_ADD, BPF_REG_2, -(int32_t)group_key_size(family));
    code_call(code, BPF_FUNC_map_lookup_elem);
    code_jump(code, (struct bpf_insn){.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .imm = 0});
    code_map(code, BPF_REG_1, program->queues);
    code_load(code, BPF_W, BPF_REG_2, CONTEXT, offsetof(struct xdp_md, rx_queue_index));
    code_number(code, BPF_MOV, BPF_REG_3, XDP_PASS);
    code_call(code, BPF_FUNC_redirect_map);
    code_exit(code);
    for (int i = 0; i < code->jump_count; i++)
        code->insns[code->jumps[i]].off = (int16_t)(code->count - code->jumps[i] - 1);
    code_number(code, BPF_MOV, BPF_REG_0, XDP_PASS);
    code_exit(code);
}

/* ------------------------------------------------------------------------------------------ maps, loading */

static int program_map(enum bpf_map_type type, uint32_t key_size, uint32_t entries)
{
    union bpf_attr attribute = {
        .map_type = type, .key_size = key_size, .value_size = sizeof(uint32_t), .max_entries = entries};

    return program_bpf(BPF_MAP_CREATE, &attribute);
}

static int program_load(const struct lli_xdp_program *program, const struct lli_xdp_program_config *config)
{
    static const char licence[] = "Apache-2.0";
    union bpf_attr attribute = {.prog_type = BPF_PROG_TYPE_XDP};
    struct code code = {.count = 0};

    if (config->family == AF_INET)
        program_parse_v4(&code, config->size_at);
    else
        program_parse_v6(&code, config->size_at);
    program_decide(&code, program, config->family);
    memcpy(attribute.prog_name, "llm_groups", sizeof "llm_groups");
    attribute.insns = (uintptr_t)code.insns;
    attribute.insn_cnt = code.count;
    attribute.license = (uintptr_t)licence;
    attribute.expected_attach_type = BPF_XDP;
    attribute.prog_flags = config->frags ? BPF_F_XDP_HAS_FRAGS : 0;
    return program_bpf(BPF_PROG_LOAD, &attribute);
}

int lli_xdp_program_init(struct lli_xdp_program *program, const struct lli_xdp_program_config *config)
{
    *program = (struct lli_xdp_program){-1, -1, -1, -1};
    program->groups = program_map(BPF_MAP_TYPE_HASH, group_key_size(config->family), config->groups_max);
    if (program->groups < 0)
        return program_fail(config->log, "map of groups");
    program->queues = program_map(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), config->queues);
    if (program->queues < 0)
        return program_fail(config->log, "map of queues");
    program->code = program_load(program, config);
    return program->code < 0 ? program_fail(config->log, "program") : 0;
}

static void program_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void lli_xdp_program_fini(struct lli_xdp_program *program)
{
    program_close(&program->link);
    program_close(&program->code);
    program_close(&program->queues);
    program_close(&program->groups);
}

/* ---------------------------------------------------------------------------------------------- attaching */

static int program_link(const struct lli_xdp_program *program, const struct lli_ip_interface *interface,
                        uint32_t flags)
{
    union bpf_attr attribute = {.link_create = {.flags = flags}};

    attribute.link_create.prog_fd = (uint32_t)program->code;
    attribute.link_create.target_ifindex = (uint32_t)interface->index;
    attribute.link_create.attach_type = BPF_XDP;
    return program_bpf(BPF_LINK_CREATE, &attribute);
}

static int attach_fail(const struct lli_log *log, const struct lli_ip_interface *interface,
                       enum lli_xdp_mode tried)
{
    const bool native = tried == LLI_XDP_NATIVE;
    const char *name = interface->name, *mode = native ? "native" : "generic";

    if (errno == EBUSY || errno == EEXIST)
        return lli_fail(log, LLM_EADDRINUSE,
                        "xdp: interface %s has an XDP program already; 'bpftool net' shows whose, 'ip link "
                        "set %s xdp off' takes off "
                        "one that was left behind; a context has the interface for itself: let channels "
                        "share one context, an address "
                        "family and the options of sockets, or take udp:// for the others",
                        name, name);
    if (errno == ENODEV)
        return lli_fail(log, LLM_EINTERFACE, "xdp: interface %s is gone; 'ip link' lists those there are",
                        name);
    if (errno == ERANGE || errno == EINVAL)
        return lli_fail(
            log, LLM_EOPTION,
            "xdp: interface %s takes no %s program at its MTU of %u: %m; 'ip link set %s mtu 1500', or %s",
            name, mode, interface->mtu, name, native ? "xdp_mode=generic" : "udp://");
    if (errno == EOPNOTSUPP)
        return lli_fail(log, LLM_EOPTION, "xdp: xdp_mode=%s: the driver of interface %s cannot; take %s",
                        mode, name, native ? "xdp_mode=generic" : "udp://");
    return program_fail(log, "program at the interface");
}

int lli_xdp_program_attach(struct lli_xdp_program *program, const struct lli_log *log,
                           const struct lli_ip_interface *interface, enum lli_xdp_mode *mode)
{
    if (*mode != LLI_XDP_GENERIC) {
        program->link = program_link(program, interface, XDP_FLAGS_DRV_MODE);
        if (program->link < 0 && (*mode == LLI_XDP_NATIVE || errno != EOPNOTSUPP))
            return attach_fail(log, interface, LLI_XDP_NATIVE);
        if (program->link < 0)
            lli_log(log, LLM_LEVEL_WARNING,
                    "xdp: the driver of interface %s runs no programs: in generic mode it makes packets of "
                    "all frames first, and has no "
                    "zero copy; xdp_mode=generic asks for it",
                    interface->name);
        else
            *mode = LLI_XDP_NATIVE;
    }
    if (program->link >= 0)
        return 0;
    *mode = LLI_XDP_GENERIC;
    program->link = program_link(program, interface, XDP_FLAGS_SKB_MODE);
    return program->link < 0 ? attach_fail(log, interface, LLI_XDP_GENERIC) : 0;
}

/* ------------------------------------------------------------------------------------------- map contents */

static int program_put(int map, const void *key, const uint32_t *value)
{
    union bpf_attr attribute = {.map_fd = (uint32_t)map, .key = (uintptr_t)key};

    attribute.value = (uintptr_t)value;
    return program_bpf(value == NULL ? BPF_MAP_DELETE_ELEM : BPF_MAP_UPDATE_ELEM, &attribute);
}

int lli_xdp_program_queue(struct lli_xdp_program *program, const struct lli_log *log, uint32_t queue,
                          int socket)
{
    const uint32_t value = (uint32_t)socket;

    return program_put(program->queues, &queue, &value) == 0 ? 0 : program_fail(log, "socket of a queue");
}

int lli_xdp_program_group(struct lli_xdp_program *program, const struct lli_log *log,
                          const union lli_ip_address *group, bool on)
{
    const uint32_t value = 1;
    union group_key key;

    memset(&key, 0, sizeof key);
    if (group->any.sa_family == AF_INET) {
        memcpy(&key.v4.address, lli_ip_bytes(group), 4);
        key.v4.port = lli_ip_port(group);
    } else {
        memcpy(key.v6.address, lli_ip_bytes(group), 16);
        key.v6.port = lli_ip_port(group);
    }
    if (program_put(program->groups, &key, on ? &value : NULL) == 0 || (!on && errno == ENOENT))
        return 0;
    return program_fail(log, "group of the program");
}
