#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the packages repeat is the same as in the source: the version, the exported symbols, the programs,
their manual pages, and the counters of docs/operations.md.

    tests/packaging/names.py SOURCE_ROOT LIBLLM

And the library needs no other libraries than docs/packages.md says.
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
# Of libc, and of the features.
NEEDED = {"libc", "libm", "libdl", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64", "libibverbs", "librdmacm", "liburing", "libcrypto", "libIPSec_MB"}
problems = []


def text(name):
    return (root / name).read_text(encoding="utf-8")


def found(name, pattern):
    match = re.search(pattern, text(name), re.M)
    if not match:
        problems.append(f"{name}: nothing matches {pattern}")
    return match.group(1) if match else ""


def check_version():
    version = found("meson.build", r"^  version: '([\d.]+)'")
    header = ".".join(found("include/llm/api.h", rf"#define LLM_VERSION_{part} (\d+)") for part in ("MAJOR", "MINOR", "PATCH"))
    places = {"include/llm/api.h": header,
              "packaging/debian/changelog": found("packaging/debian/changelog", r"\Alibllm \(([\d.]+)-\d+\)"),
              "packaging/meson/libllm.wrap, directory": found("packaging/meson/libllm.wrap", r"^directory = libllm-(.*)$"),
              "packaging/meson/libllm.wrap, source_filename": found("packaging/meson/libllm.wrap", r"^source_filename = libllm_(.*)\.orig\.tar\.xz$")}
    for place, other in places.items():
        if other != version:
            problems.append(f"{place}: the version is {other}, and {version} in meson.build")
    minor = ".".join(version.split(".")[:2])
    for place in ("packaging/cmake/llmConfig.cmake.in", "packaging/debian/tests/tutorial", "tests/packaging/cmake/CMakeLists.txt"):
        wanted = found(place, r"find_package\(llm ([\d.]+) REQUIRED\)")
        if wanted != minor:
            problems.append(f"{place}: finds version {wanted}, not {minor}")


def check_symbols():
    """Each symbol has the version that brought it; a new one gets the next version."""
    exported = {line for line in text("tests/tidy/symbols.txt").splitlines() if line and not line.startswith("#")}
    packaged = set(re.findall(r"^ (\w+)@Base [\d.]+$", text("packaging/debian/libllm0.symbols"), re.M))
    for name in sorted(exported - packaged):
        problems.append(f"packaging/debian/libllm0.symbols: has no {name}; add the line ` {name}@Base VERSION`, in order")
    for name in sorted(packaged - exported):
        problems.append(f"packaging/debian/libllm0.symbols: has {name}, which is not exported; remove it, and raise the version")


def check_programs():
    """Each program that is installed is in a package, has a manual page, and is completed."""
    build = text("tools/meson.build")
    programs = set(re.findall(r"executable\('(llm[\w-]*)'", build)) | set(re.findall(r"copyfile\('(llm-\w+)'", build))
    packaged = set(re.findall(r"^usr/bin/(\S+)$", text("packaging/debian/llm-tools.install"), re.M))
    pages = set(re.findall(r"'(llm[\w-]*)\.1'", text("docs/man/meson.build")))
    completed = set(found("tools/completions/llm.bash", r"^complete -o default -F _llm (.*)$").split())
    compdef = set(found("tools/completions/_llm", r"\A#compdef (.*)$").split())
    for place, names in (("packaging/debian/llm-tools.install", packaged), ("docs/man/meson.build", pages),
                         ("tools/completions/llm.bash", completed), ("tools/completions/_llm", compdef)):
        for name in sorted(programs ^ names):
            problems.append(f"{place}: {'has no' if name in programs else 'has'} {name}, which tools/meson.build {'installs' if name in programs else 'does not install'}")


def check_needed():
    """Each further library has to be installed wherever a program of libllm runs."""
    shown = subprocess.run(["readelf", "-d", sys.argv[2]], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"\(NEEDED\).*\[([\w-]+)\.so", shown):
        if name not in NEEDED:
            problems.append(f"{sys.argv[2]}: needs {name}; do without it, or name it in docs/packages.md and in this test")


def check_operations():
    """Each counter that docs/operations.md explains is in docs/statistics.md."""
    table = text("docs/operations.md").split("## When a counter grows")[1].split("\n## ")[0]
    for name in re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M))):
        if f"`{name}`" not in text("docs/statistics.md"):
            problems.append(f"docs/operations.md: explains the counter {name}, which docs/statistics.md does not have")


check_version()
check_symbols()
check_programs()
check_operations()
check_needed()
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
