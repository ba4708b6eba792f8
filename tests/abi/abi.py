#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the public headers with the ABI of the last release, by abidiff of Debian's abigail-tools.

    tests/abi/abi.py check [SOURCE_ROOT]     compare with the latest tests/abi/libllm-VERSION.abi
    tests/abi/abi.py record [SOURCE_ROOT]    write that file for the version of the headers, when it is released
    tests/abi/abi.py test [SOURCE_ROOT]      the check itself: it must find a changed structure and a removed function

What is compared is a library of empty functions that is made of the headers alone: prototypes, structures and enumerations, and no
private type. The rule of versions is that of docs/adr/0049-names-of-the-api.md: a change by which programs have to be changed or
compiled again needs a higher minor number before 1.0.0, and a higher major number from then on; an addition needs a higher number
of any kind. Exit status: 0, 1 if the rule is broken, 77 if abidiff or a compiler is not installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CHANGED, INCOMPATIBLE = 4, 8  # bits of the exit status of abidiff
NUMBERS = ("MAJOR", "MINOR", "PATCH")


def version_of(include):
    text = (include / "llm" / "api.h").read_text()
    return tuple(int(re.search(rf"#define LLM_VERSION_{name} (\d+)", text).group(1)) for name in NUMBERS)


def prototypes(include):
    """The public functions, as text that ends before the semicolon."""
    for header in sorted((include / "llm").glob("*.h")):
        code = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
        for found in re.findall(r"^LLM_API\s+([^;#]*?\));", code, re.M):
            yield re.sub(r"\s+", " ", found)


def build(include, directory):
    """A library of empty functions with debug information of the public types."""
    source, library = directory / "llm.c", directory / "libllm.so"
    lines = ["#include <llm/llm.h>", "#include <llm/stats.h>"]
    lines += [f"{text} {{ {'' if text.startswith('void ') else 'return 0;'} }}" for text in prototypes(include)]
    for header in sorted((include / "llm").glob("*.h")):  # structures without a function, those of the counters file
        lines += [f"struct {name} abi_{name};" for name in re.findall(r"^struct (\w+) {", header.read_text(), re.M)]
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-g", "-w", f"-I{include}", "-o", library, source], check=True)
    return library


def compare(old, new):
    """The exit status of abidiff and what it prints."""
    done = subprocess.run(["abidiff", "--no-architecture", old, new], capture_output=True, text=True, check=False)
    if done.returncode & 3:
        sys.exit(f"abi.py: abidiff {old} {new}: {done.stderr.strip() or done.stdout.strip()}")
    return done.returncode, done.stdout


def fault_of(status, old, new):
    """None, or what is wrong with version `new` after a change of this status since `old`."""
    minor = 1 if old[0] == 0 and new[0] == 0 else 0
    if status & INCOMPATIBLE and new[:minor + 1] <= old[:minor + 1]:
        return f"programs of {'.'.join(map(str, old))} have to be changed or compiled again: raise LLM_VERSION_{NUMBERS[minor]}"
    if status & CHANGED and new <= old:
        return f"the interface is not that of {'.'.join(map(str, old))}: raise LLM_VERSION_PATCH at least"
    return None


def recorded(root):
    """The latest record and its version."""
    records = {tuple(map(int, path.stem.split("-")[1].split("."))): path for path in (root / "tests" / "abi").glob("libllm-*.abi")}
    if not records:
        sys.exit("abi.py: there is no tests/abi/libllm-VERSION.abi: tests/abi/abi.py record writes it for a release")
    return max(records.items())


def check(root, directory):
    old, record = recorded(root)
    new = version_of(root / "include")
    status, text = compare(record, build(root / "include", directory))
    fault = fault_of(status, old, new)
    print(text if fault else text.split("\n\n")[0])
    if fault:
        sys.exit(f"abi.py: {fault}")
    print(f"abi: {'.'.join(map(str, new))} after {'.'.join(map(str, old))}: ok")


def record(root, directory):
    library = build(root / "include", directory)
    path = root / "tests" / "abi" / f"libllm-{'.'.join(map(str, version_of(root / 'include')))}.abi"
    subprocess.run(["abidw", "--no-corpus-path", "--no-show-locs", "--no-comp-dir-path", "--no-elf-needed", "--no-architecture",
                    "--out-file", path, library], check=True)
    print(f"abi: wrote {path}")


def changed(root, directory, name, file, old, new):
    """The status of abidiff after one change of a header, and after none."""
    include = directory / name / "include"
    shutil.copytree(root / "include", include)
    header = include / "llm" / file
    text = header.read_text()
    if old not in text:
        sys.exit(f"abi.py: llm/{file} does not have: {old}")
    before = shutil.copy(build(include, directory / name), directory / name / "before.so")
    header.write_text(text.replace(old, new, 1))
    return compare(before, build(include, directory / name))[0]


def test(root, directory):
    """Every kind of change is found, and requires the version that the rule states."""
    member = changed(root, directory, "member", "receiver.h", "    uint32_t size; ", "    uint64_t size;")
    removed = changed(root, directory, "removed", "context.h", "LLM_API int llm_poll(struct llm_context *context);", "")
    added = changed(root, directory, "added", "api.h", "LLM_API const char *llm_version(void);",
                    "LLM_API const char *llm_version(void);\nLLM_API int llm_more(void);")
    same = changed(root, directory, "same", "api.h", "/* Returns the version", "/* The version")
    wrong = [] if member & INCOMPATIBLE or member & CHANGED else ["a changed structure was not found"]
    wrong += [] if removed & INCOMPATIBLE else ["a removed function was not found"]
    wrong += [] if added & CHANGED and not added & INCOMPATIBLE else ["an added function was not found as such"]
    wrong += ["a change where there is none"] if same else []
    wrong += [] if fault_of(INCOMPATIBLE | CHANGED, (0, 1, 0), (0, 1, 1)) else ["0.1.1 after 0.1.0"]
    wrong += ["0.2.0 after 0.1.0"] if fault_of(INCOMPATIBLE | CHANGED, (0, 1, 0), (0, 2, 0)) else []
    wrong += [] if fault_of(INCOMPATIBLE | CHANGED, (1, 1, 0), (1, 2, 0)) else ["1.2.0 after 1.1.0"]
    wrong += [] if fault_of(CHANGED, (1, 1, 0), (1, 1, 0)) else ["1.1.0 after 1.1.0"]
    wrong += ["1.1.1 after 1.1.0"] if fault_of(CHANGED, (1, 1, 0), (1, 1, 1)) else []
    if wrong:
        sys.exit("abi.py: " + "; ".join(wrong))
    print("abi: the check finds what it should")


def main():
    commands = {"check": check, "record": record, "test": test}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in commands:
        sys.exit(__doc__.split("\n\n")[1])
    for program, package in (("abidiff", "abigail-tools"), ("cc", "gcc")):
        if shutil.which(program) is None:
            print(f"abi.py: {program} is not installed: apt-get install {package}")
            sys.exit(77)
    root = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parents[2]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        commands[sys.argv[1]](root, pathlib.Path(directory))


if __name__ == "__main__":
    main()
