# SPDX-License-Identifier: Apache-2.0
"""Channels as the bare transports know them (raw/raw.h)."""
import re

OFFSET = 100  # from the library's packets
IP_BYTES = {False: 20, True: 40}  # by whether it is IPv6


def parts(channel):
    """Scheme, host, port and options of a channel; a decorator before the scheme does not count."""
    scheme, host, port, options = re.fullmatch(r"(?:\w+\+)*(\w+)://(\[[^]]*\]|[^:?]*)(?::(\d+))?(?:\?(.*))?", channel).groups()
    return scheme, host.strip("[]"), int(port or 0), dict(option.split("=", 1) for option in (options or "").split("&") if option)


def bytes_of(text):
    """As the library reads it."""
    return int(text[:-1]) << 10 * ("KMG".index(text[-1]) + 1) if text[-1] in "KMG" else int(text)


def place(channel, offset=OFFSET):
    """Where the bare packets beside a channel go: to a port, or of RDMA, which has none, a group, or a name in memory, that is so much
    further."""
    scheme, host, port, options = parts(channel)
    if scheme == "shm":
        host += f"-{offset}"
    elif scheme == "roce":
        head, last = re.fullmatch(r"(.*[.:])(\w+)", host).groups()
        host, port = head + (str(int(last) + offset) if "." in head else f"{int(last, 16) + offset:x}"), 0
    else:
        port += offset
    return ",".join(map(str, (scheme, host, port, options.get("interface", ""), options.get("mtu", 0),
                              bytes_of(options.get("history_bytes", "0")), options.get("shm_directory", ""))))


def header_bytes(channel):
    """Before the payload in each packet of a channel, from the IP header on; over RDMA with immediate data and a check sequence."""
    scheme, host, _, _ = parts(channel)
    return 0 if scheme == "shm" else IP_BYTES[":" in host] + (36 if scheme == "roce" else 8)
