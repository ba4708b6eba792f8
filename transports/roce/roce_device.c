/* SPDX-License-Identifier: Apache-2.0 */
/* Device, GID and MTU of an interface; errors and remedies. */
#define _GNU_SOURCE
#include "roce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    GIDS_MAX = 1024,
    IPV4_HEADER = 20,
    IPV6_HEADER = 40,
    /* UDP, base transport header, datagram header, immediate data, invariant checksum. */
    ROCE_HEADERS = 8 + 12 + 8 + 4 + 4,
};

/* ----------------------------------------------------------------------------------------------- failures */

static const struct device_failure {
    int number;
    int error;
    const char *remedy;
} device_failures[] = {
    {ENODEV, LLM_EINTERFACE,
     "the interface has no RDMA device, or rdma_ucm is not loaded; 'rdma link' lists devices, "
     "'modprobe rdma_ucm' loads it"},
    {ENOENT, LLM_EINTERFACE, "there is no /dev/infiniband; 'modprobe rdma_ucm' makes it"},
    {EADDRNOTAVAIL, LLM_EINTERFACE,
     "the address is not on an RDMA device; 'rdma link' and 'ip address' show both"},
    {ENETUNREACH, LLM_EINTERFACE, "there is no route to the group; 'ip route add' gives it one"},
    {EHOSTUNREACH, LLM_EINTERFACE, "there is no route to the group; 'ip route add' gives it one"},
    {EACCES, LLM_EACCESS, "the files in /dev/infiniband are not for this user; see their group and mode"},
    {EPERM, LLM_EACCESS, "a security policy of this host forbids it"},
    {EMFILE, LLM_ELIMIT, "raise the limit of open files, 'ulimit -n'"},
    {ENFILE, LLM_ELIMIT, "raise the limit of open files, fs.file-max"},
    {524 /* ENOTSUPP, the kernel's own */, LLM_EGROUP,
     "the device's driver does not do this kind of group; IPv4 groups are those "
     "that all do"},
    {EOPNOTSUPP, LLM_EINTERFACE, "the device does not do it"},
    {ENOSPC, LLM_ELIMIT, "the device has no more of them"},
};

/* ENOMEM usually means that no more memory may be pinned. */
static int device_fail_memory(const struct lli_roce *roce, const char *what)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return lli_fail(roce->log, LLM_ENOMEM,
                        "roce: %s on interface %s: out of memory, or of resources of the device", what,
                        roce->device.interface.name);
    return lli_fail(roce->log, LLM_EACCESS,
                    "roce: %s on interface %s: out of memory; %llu bytes may be locked, 'ulimit -l "
                    "unlimited' or memlock in "
                    "/etc/security/limits.conf allows more",
                    what, roce->device.interface.name, (unsigned long long)limit.rlim_cur);
}

int lli_roce_fail(const struct lli_roce *roce, const char *what)
{
    if (errno == ENOMEM)
        return device_fail_memory(roce, what);
    for (size_t i = 0; i < sizeof device_failures / sizeof device_failures[0]; i++)
        if (device_failures[i].number == errno)
            return lli_fail(roce->log, device_failures[i].error, "roce: %s on interface %s: %m; %s", what,
                            roce->device.interface.name, device_failures[i].remedy);
    return lli_fail(roce->log, LLM_ESYSTEM, "roce: %s on interface %s: %m", what,
                    roce->device.interface.name);
}

int lli_roce_fail_gone(const struct lli_roce *roce)
{
    return lli_fail(roce->log, LLM_EINTERFACE,
                    "roce: device %s is gone; close the channels on it and open them again",
                    roce->device.name);
}

/* ---------------------------------------------------------------------------------------------- GIDs, MTU */

static void gid_from_ip(const union lli_ip_address *address, union ibv_gid *gid)
{
    memset(gid, 0, sizeof *gid);
    if (address->any.sa_family == AF_INET) {
        gid->raw[10] = gid->raw[11] = 0xff;
        memcpy(gid->raw + 12, lli_ip_bytes(address), 4);
    } else {
        memcpy(gid->raw, lli_ip_bytes(address), 16);
    }
}

struct lli_roce_gid lli_roce_gid_of(const union lli_ip_address *address)
{
    struct lli_roce_gid words;
    union ibv_gid gid;

    gid_from_ip(address, &gid);
    memcpy(&words, gid.raw, sizeof words);
    return words;
}

/* Finds the RoCE v2 GID of the interface's address; sets v1 if a RoCE v1 GID exists. */
static bool gid_find(struct lli_roce *roce, const struct ibv_gid_entry *entries, ssize_t count, bool *v1)
{
    for (ssize_t i = 0; i < count; i++) {
        if (entries[i].port_num != roce->device.port ||
            memcmp(entries[i].gid.raw, roce->device.gid.raw, sizeof roce->device.gid.raw) != 0)
            continue;
        *v1 |= entries[i].gid_type == IBV_GID_TYPE_ROCE_V1;
        if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
            continue;
        roce->device.gid_index = (uint8_t)entries[i].gid_index;
        return true;
    }
    return false;
}

static int gid_check(struct lli_roce *roce)
{
    struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof *entries);
    char text[LLI_IP_TEXT_MAX];
    ssize_t count;
    bool v1 = false, found;

    if (entries == NULL)
        return lli_fail(roce->log, LLM_ENOMEM, "roce: no memory for the GIDs of device %s",
                        roce->device.name);
    gid_from_ip(&roce->device.interface.address, &roce->device.gid);
    count = ibv_query_gid_table(roce->out.id->verbs, entries, GIDS_MAX, 0);
    found = gid_find(roce, entries, count, &v1);
    free(entries);
    if (count < 0) {
        errno = (int)-count;
        return lli_roce_fail(roce, "query of the GIDs");
    }
    if (found)
        return 0;
    lli_ip_text(&roce->device.interface.address, text);
    if (v1)
        return lli_fail(roce->log, LLM_EINTERFACE,
                        "roce: device %s has %s as RoCE v1 only, which no router and few switches "
                        "handle; take a device that does RoCE v2",
                        roce->device.name, text);
    return lli_fail(roce->log, LLM_EINTERFACE,
                    "roce: device %s port %u has no GID of %s; 'rdma link' and 'ibv_devinfo -v' show "
                    "which it has",
                    roce->device.name, roce->device.port, text);
}

int lli_roce_route_check(const struct lli_roce *roce, const struct ibv_ah_attr *route)
{
    struct ibv_gid_entry entry = {.gid_type = IBV_GID_TYPE_ROCE_V2};

    if (ibv_query_gid_ex(roce->out.id->verbs, roce->device.port, route->grh.sgid_index, &entry, 0) != 0 ||
        entry.gid_type == IBV_GID_TYPE_ROCE_V2)
        return 0;
    return lli_fail(roce->log, LLM_EINTERFACE,
                    "roce: groups on device %s are of RoCE v1, by the host's setting; "
                    "'mkdir /sys/kernel/config/rdma_cm/%s', and 'RoCE v2' written to "
                    "ports/%u/default_roce_mode in it, makes "
                    "them v2",
                    roce->device.name, roce->device.name, roce->device.port);
}

static int mtu_check(struct lli_roce *roce, const struct llm_options *options,
                     const struct ibv_port_attr *port)
{
    const uint32_t active = (uint32_t)128 << port->active_mtu;
    uint32_t mtu;
    const int status = lli_ip_mtu_choose(roce->log, "roce", &roce->device.interface, options->mtu, &mtu);

    if (status != 0)
        return status;
    mtu -= roce->v4 ? IPV4_HEADER + ROCE_HEADERS : IPV6_HEADER + ROCE_HEADERS;
    roce->out.payload_max = (uint32_t)lli_min(mtu, active);
    if (roce->out.payload_max < 512)
        return lli_fail(roce->log, LLM_EINTERFACE,
                        "roce: device %s carries packets of %u bytes only; raise the MTU of "
                        "interface %s, 1500 gives 1024 and 4200 gives 4096",
                        roce->device.name, roce->out.payload_max, roce->device.interface.name);
    return 0;
}

int lli_roce_device_check(struct lli_roce *roce, const struct llm_options *options,
                          struct ibv_device_attr *limits)
{
    struct ibv_context *verbs = roce->out.id->verbs;
    struct ibv_port_attr port;

    if (verbs == NULL) {
        errno = ENODEV;
        return lli_roce_fail(roce, "an RDMA device");
    }
    snprintf(roce->device.name, sizeof roce->device.name, "%s", ibv_get_device_name(verbs->device));
    roce->device.port = roce->out.id->port_num;
    roce->device.numa_node = lli_memory_node("infiniband", roce->device.name);
    if ((errno = ibv_query_device(verbs, limits)) != 0 ||
        (errno = ibv_query_port(verbs, roce->device.port, &port)) != 0)
        return lli_roce_fail(roce, "query of the RDMA device");
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
        return lli_fail(roce->log, LLM_EINTERFACE,
                        "roce: device %s port %u is InfiniBand, not Ethernet; take an interface "
                        "whose device 'rdma link' shows with an Ethernet netdev",
                        roce->device.name, roce->device.port);
    if (port.state != IBV_PORT_ACTIVE && port.state != IBV_PORT_ACTIVE_DEFER)
        return lli_fail(roce->log, LLM_EINTERFACE,
                        "roce: port %u of device %s is %s; 'ip link set %s up' and a cable bring it "
                        "up",
                        roce->device.port, roce->device.name, ibv_port_state_str(port.state),
                        roce->device.interface.name);
    const int status = gid_check(roce);
    return status != 0 ? status : mtu_check(roce, options, &port);
}
