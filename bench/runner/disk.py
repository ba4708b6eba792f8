# SPDX-License-Identifier: Apache-2.0
"""Directories of stores, and the bare disk below them (raw/raw_disk.c)."""
import pathlib
import shutil

from runner.histogram import Histogram
from runner.session import fail, request

BLOCK = 512 << 10  # bytes of a full block of a store, of which it has DEPTH under way
DEPTH = 4
PAGE = 4096


class Place:
    """
    A directory on a file system; that of the name tmpfs is in memory, on huge pages if they can be had. It is removed with everything in
    it when bench/run ends, however it ends.
    """

    def __init__(self, name, base):
        self.name = name
        status, text = request("directory", base, *(["tmpfs"] if name == "tmpfs" else []))
        if status:
            fail(f"{base}: no directory can be made there: {text}; choose another one with --directory", 2)
        self.path, self.count = pathlib.Path(text), 0

    def new(self):
        """Returns the path of an empty directory."""
        self.count += 1
        path = self.path / str(self.count)
        path.mkdir()
        return path

    def free_mib(self):
        return shutil.disk_usage(self.path).free >> 20


class Raw:
    """The bare disk: a process of raw/raw_disk.c, which has a file of its own."""

    def __init__(self, bench, process):
        self.bench, self.process = bench, process
        self.process.hear()

    def write(self, duration, size=BLOCK, depth=DEPTH):
        """Returns MiB a second, and the times of writes."""
        self.process.tell("write", size=size, depth=depth, duration=duration)
        return self.hear()

    def read(self, duration, size=BLOCK, depth=DEPTH):
        """Returns MiB a second, and the times of reads."""
        self.process.tell("read", size=size, depth=depth, duration=duration)
        return self.hear()

    def record(self, duration, size, rate, wait="block"):
        """Begins to write records of a size that come due at a rate, one write at a time."""
        self.process.tell("record", size=size, rate=rate, wait=wait, duration=duration)

    def hear(self):
        """Returns MiB a second, and the times of writes, reads or records."""
        found = self.process.hear()
        return found["mib_per_s"], Histogram(found["times"])

    def close(self):
        self.bench.processes.finish(self.process)
