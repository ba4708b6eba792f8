# SPDX-License-Identifier: Apache-2.0
"""Channels in the form of the bare transports (raw/raw.h)."""
import re

OFFSET = 100  # distance of groups and ports from the library's
IP_BYTES = {False: 20, True: 40}  # IP header, by whether it is IPv6


def parts(channel):
    """Returns scheme, host, port and options of a channel, without decorators."""
    scheme, host, port, options = re.fullmatch(r"(?:\w+\+)*(\w+)://(\[[^]]*\]|[^:?]*)(?::(\d+))?(?:\?(.*))?", channel).groups()
    return scheme, host.strip("[]"), int(port or 0), dict(option.split("=", 1) for option in (options or "").split("&") if option)


def bytes_of(text):
    """Parses a size, as the library does."""
    return int(text[:-1]) << 10 * ("KMG".index(text[-1]) + 1) if text[-1] in "KMG" else int(text)


def place(channel, offset=OFFSET):
    """Destination of bare packets that correspond to a channel: its port plus offset. RDMA has no ports, so its group is offset; shared
    memory, its name."""
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
    """Bytes before the payload in each packet of a channel, from the IP header on; with RDMA plus immediate data and check sequence."""
    scheme, host, _, _ = parts(channel)
    return 0 if scheme == "shm" else IP_BYTES[":" in host] + (36 if scheme == "roce" else 8)
