# SPDX-License-Identifier: Apache-2.0
"""Aeron's archive, which bench/run store compares with (adapters/aeron_archive). It comes from Maven Central."""
import hashlib
import shutil
import subprocess
import urllib.request

from runner.histogram import Histogram
from runner.session import ROOT, request, say

VERSION = "1.51.0"
SUM = "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458"
URL = f"https://repo1.maven.org/maven2/io/aeron/aeron-all/{VERSION}/aeron-all-{VERSION}.jar"
BUILD = ROOT / "build/peers/archive"
JAR = BUILD / f"aeron-all-{VERSION}.jar"
SOURCE = ROOT / "bench/adapters/aeron_archive/ArchivePeer.java"
OPENED = ("java.base/jdk.internal.misc", "java.base/sun.nio.ch")
JAVA = ["java", "-Xms512m", "-Xmx1g", *(word for name in OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")), "-cp", f"{JAR}:{BUILD}",
        "ArchivePeer"]
SYNC = {"synced": 1, "written": 0}  # levels of a store, and fileSyncLevel


def available():
    """Fetches and compiles it. False, with the reason printed, if it cannot be had."""
    try:
        if not shutil.which("javac") and request("packages", "openjdk-17-jdk-headless", "ca-certificates")[0]:
            raise OSError("there is no Java")
        BUILD.mkdir(parents=True, exist_ok=True)
        if not JAR.exists():
            with urllib.request.urlopen(URL, timeout=60) as answer:
                data = answer.read()
            if hashlib.sha256(data).hexdigest() != SUM:
                raise OSError(f"{URL}: not the expected file")
            JAR.write_bytes(data)
        subprocess.run(["javac", "-nowarn", "-cp", JAR, "-d", BUILD, SOURCE], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"without Aeron's archive: {error}")
        return False
    return True


class ArchiveRun:
    """An archive on host B that records what a publisher on host A sends."""

    def __init__(self, stores, name, level, size):
        o, hosts, memory = stores.o, stores.bench.hosts, stores.places["tmpfs"]
        self.stores, self.directories = stores, [stores.places[name].new(), memory.new(), memory.new()]
        directory, there, here = self.directories
        processes = stores.bench.processes
        self.archive = processes.start(hosts.b, "archive", JAVA, "archive", cpu=o.cpus[1], directory=directory, aeron=there / "driver",
                                       channel=self.channel(hosts.b), sync=SYNC[level], segment_mib=stores.segment_mib, threads="shared")
        self.archive.hear()
        self.publisher = processes.start(hosts.a, "publisher", JAVA, "publisher", cpu=o.cpus[0], aeron=here / "driver",
                                         archive=there / "driver", channel=self.channel(hosts.a), size=size)
        self.publisher.hear()

    @staticmethod
    def channel(host):
        return f"aeron:udp?endpoint=239.192.9.1:5101|interface={host.address}"

    def send(self, rate, duration):
        found = self.publisher.ask("send", rate=rate, duration=duration)
        return {**found, "times": Histogram(found["acknowledged"])}

    def close(self):
        """Ends both; returns the resident memory of the archive."""
        found = self.archive.ask("stats")
        self.publisher.tell("end")
        self.stores.bench.processes.finish(self.publisher)
        self.stores.bench.processes.finish(self.archive)
        for directory in self.directories:
            shutil.rmtree(directory)
        return found["rss_mib"]
