#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a compiler does not: layering, symbols, licence lines, and that the documents tell the truth.

    tests/tidy/tidy.py SOURCE_DIR BUILD_DIR [CHECK...]

Prints each problem as file:line: what is wrong; what to do. Exit status: 0 if there is none. Without CHECK all of them run.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP_LEVEL = {"meson.build", "meson_options.txt", "include", "src", "transports", "tests", "bench", "examples", "docs", "tools", "bindings",
             "packaging", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
CODE_DIRS = ("include", "src", "transports", "bench", "tests", "examples", "tools", "docs", "bindings", "packaging")

# System headers that the core includes.
CORE_SYSTEM = {"assert.h", "math.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h", "string.h", "sys/uio.h", "immintrin.h", "xxhash.h", "llm/llm.h"}
# External symbols that the core's objects may need. The last ones are the compiler's own, by its flags.
CORE_SYMBOLS = re.compile(r"(memcpy|memset|memmove|memcmp|bcmp|strlen|__cpu_model|log|log1p|exp|__assert_fail|lli_\w+"
                          r"|__stack_chk_fail|__mem\w+_chk|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sanitizer|gcov)_\w+)$")
# Library headers that a transport includes, besides its own and those of transports/common.
TRANSPORT_HEADERS = {"transport.h", "core/base/types.h", "system/clock.h", "system/log.h", "system/memory.h", "system/owned.h"}
# Transports built on another one: their directory, and the other's header.
BUILT_ON = {"bypass": {"../udp/udp.h"}}

# Words that only one file of the library may use: files that are searched, what it does, what the others do.
ONLY_IN = (
    # A transport may map memory of its device; the placement of other memory is not its concern.
    (r"^src/", r"\b(mmap|munmap|madvise)\s*\(", "src/system/memory.c", "takes big memory", "call lli_memory_map()"),
    (r"", r"\b(SYS_mbind\b|(mbind|numa_\w+)\s*\()", "src/system/memory.c", "places memory on nodes", "call lli_memory_map()"),
    (r"", r"\b(clock_gettime)\s*\(", "src/system/clock.c", "reads the clock", "call lli_clock_ns(), or take the time as an argument"),
)

problems = []


def problem(path, line, what, remedy):
    problems.append(f"{path}:{line}: {what}; {remedy}")


class Tree:
    """The source and the build, and files as lines."""

    def __init__(self, source, build):
        self.source = pathlib.Path(source).resolve()
        self.build = pathlib.Path(build).resolve()

    def name(self, path):
        return str(path.relative_to(self.source))

    def lines(self, path):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()

    def files(self, *patterns, under=CODE_DIRS):
        found = set()
        for directory in under:
            for pattern in patterns:
                found.update((self.source / directory).rglob(pattern))
        return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def without_comments(text):
    """The code with comments and strings blanked, line for line."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", blank, text, flags=re.S)


def includes(tree, path):
    """(line, header, is_system) of each #include."""
    for number, line in enumerate(tree.lines(path), 1):
        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if match:
            yield number, match.group(2), match.group(1) == "<"


# ------------------------------------------------------------------------------------------------------ layers


def check_core(tree):
    """The core includes only its own headers."""
    for path in tree.files("*.c", "*.h", under=("src/core",)):
        for line, header, is_system in includes(tree, path):
            if header not in CORE_SYSTEM if is_system else not header.startswith("core/"):
                problem(tree.name(path), line, f"the core includes {header}", "the core has no input, output, clock or memory of its own: "
                        "pass what it needs as an argument, or move the code to the engine")


def folder(name):
    return name.rsplit("/", 1)[0]


def included(tree, path, header):
    """The file that an #include of the library refers to, by the include directories of meson.build."""
    for base in (path.parent, tree.source / "src", tree.source / "transports"):
        if (base / header).is_file():
            return tree.name((base / header).resolve())
    return None


def circles(edges):
    """Sets of folders that reach each other, by Tarjan's algorithm."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for after in edges.get(node, ()):
            if after not in order:
                visit(after)
            if after in stack:
                low[node] = min(low[node], low[after])
        if low[node] == order[node]:
            members = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(members)

    for node in list(edges):
        if node not in order:
            visit(node)
    return found


def check_folders(tree):
    """Folders depend on each other in one direction only, and *_internal.h is included in its own folder only."""
    edges, where = {}, {}
    for path in tree.files("*.c", "*.h", under=("src", "transports")):
        for line, header, is_system in includes(tree, path):
            target = None if is_system else included(tree, path, header)
            if target is None or folder(target) == folder(tree.name(path)):
                continue
            edges.setdefault(folder(tree.name(path)), set()).add(folder(target))
            where.setdefault((folder(tree.name(path)), folder(target)), (tree.name(path), line, target))
            if target.endswith("_internal.h"):
                problem(tree.name(path), line, f"includes {target}", "that is private to its folder: use the folder's other headers")
    for user, name, home in calls_between_folders(tree):
        edges.setdefault(folder(user), set()).add(folder(home))
        where.setdefault((folder(user), folder(home)), (user, 1, f"{name} of {home}"))
    for circle in circles(edges):
        for one in circle:
            for other in sorted(edges[one] & set(circle)):
                path, line, what = where[one, other]
                problem(path, line, f"{one} needs {other} ({what}), which needs {one}", "move what both need to a folder below, or pass it "
                        "as an argument; calls up go through a table, as in src/engine/upcalls.h")


def check_transports(tree):
    """A transport includes only the transport interface of the library."""
    common = {f"common/{path.name}" for path in tree.files("*.h", under=("transports/common",))}
    for path in tree.files("*.c", "*.h", under=("transports",)):
        allowed = TRANSPORT_HEADERS | common | {file.name for file in path.parent.glob("*.h")} | BUILT_ON.get(path.parent.name, set())
        for line, header, is_system in includes(tree, path):
            if not is_system and header not in allowed:
                problem(tree.name(path), line, f"a transport includes {header}", "it may include "
                        + ", ".join(sorted(TRANSPORT_HEADERS | common)) + ", its own headers and those of the system")


def check_alone(tree):
    """Some functions are used in one file only."""
    for path in tree.files("*.c", "*.h", under=("src", "transports")):
        code = without_comments(path.read_text()).splitlines()
        for where, pattern, home, does, remedy in ONLY_IN:
            for number, line in enumerate(code, 1):
                found = re.search(pattern, line) if re.match(where, tree.name(path)) else None
                if found and tree.name(path) != home:
                    problem(tree.name(path), number, f"{found.group(1)}: only {home} {does}", remedy)


def check_registry(tree):
    """Only the registry and a transport itself name its table."""
    tables = {}
    for path in tree.files("*.c", under=("transports",)):
        for name in re.findall(r"^const struct lli_transport (\w+) = ", path.read_text(), re.M):
            tables[name] = tree.name(path)
    for path in tree.files("*.c", "*.h", under=("src", "transports")):
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            for name in re.findall(r"\b\w+\b", line):
                if name in tables and tree.name(path) not in ("src/config/registry.c", tables[name]):
                    problem(tree.name(path), number, f"names the transport {name}", "ask lli_transport_find() in src/config/registry.c")


# ----------------------------------------------------------------------------------------------------- symbols


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


def check_core_symbols(tree):
    """The core reaches no system call."""
    library = tree.build / "libllmcore.a"
    status, text = run("nm", "-u", str(library))
    if status != 0:
        problem(library, 1, "nm cannot read it", "build the library first")
        return
    member = "?"
    for line in text.splitlines():
        if line.endswith(":"):
            member = line[:-1]
        match = re.match(r"\s+U (\S+)$", line)
        if match and not CORE_SYMBOLS.match(match.group(1)):
            source = member.removesuffix(".o").replace("_", "/", 3)
            problem(source, 1, f"the core calls {match.group(1)}", "the core computes only: move the call out of it")


def calls_between_folders(tree):
    """(file, symbol, file that defines it), of objects in different folders."""
    sources = {tree.name(path).replace("/", "_") + ".o": tree.name(path) for path in tree.files("*.c", under=("src", "transports"))}
    defined, used = {}, []
    for directory in ("libllmcore.a.p", "libllm.so.*.p"):
        for path in sorted(tree.build.glob(f"{directory}/*.o")):
            name = sources.get(path.name)
            if name is None:
                continue
            for line in run("nm", str(path))[1].splitlines():
                kind, symbol = line.split()[-2:]
                if kind == "U":
                    used.append((name, symbol))
                elif kind.isupper():
                    defined[symbol] = name
    return [(name, symbol, defined[symbol]) for name, symbol in used
            if symbol in defined and folder(defined[symbol]) != folder(name)]


# Sources without a unit test of their own: the test that covers them. No test covers the one that reads the clock.
COVERED_BY = {
    "api/context": "api/api", "api/numbered": "api/stream", "api/receiver": "api/api", "api/send": "api/answers", "api/transmitter": "api/api",
    "connection/confirm": "connection/connection", "connection/listener": "connection/connection",
    "connection/connections": "connection/connection", "connection/peers": "connection/connection",
    "core/pack/pack_attributes": "core/pack/pack", "core/base/hash_avx2": "core/base/hash", "core/rx/former": "core/rx/rx_trust",
    "core/rx/rx_deliver": "core/rx/rx_session", "core/rx/rx_filter": "core/select/filter_packets",
    "core/rx/rx_heartbeat": "core/rx/rx_trust", "core/rx/rx_hold": "api/seal", "core/rx/rx_nak": "core/rx/rx_session",
    "core/rx/rx_notice": "core/slow/slow",
    "core/rx/rx_report": "core/rx/rx_session", "core/rx/rx_token": "core/wire/token", "core/rx/rx_topics": "core/rx/rx_session",
    "core/select/selector_run": "core/select/selector", "core/tx/tx_blocked": "core/tx/tx_session", "core/tx/tx_join": "core/rx/rx_join",
    "core/tx/tx_answer": "core/tx/forged", "core/tx/tx_heartbeat": "core/tx/tx_session",
    "core/tx/tx_lvc": "core/rx/rx_lvc", "core/tx/tx_members": "core/tx/tx_session", "core/tx/tx_nak": "core/tx/forged",
    "core/tx/tx_token": "core/tx/forged", "core/tx/tx_topics": "core/tx/tx_session",
    "store/cursor_packet": "store/keys", "store/recordings": "store/replay", "store/replay_deliver": "store/replay",
    "engine/destinations": "api/api", "engine/lock": "api/loop", "engine/refuse": "api/refusals",
    "engine/watched": "observe/watch", "store/disk_thread": "store/disk", "store/disk_uring": "store/disk", "system/clock": None,
    "system/owned": "observe/stats_sweep", "engine/protection": "api/keys", "engine/sealing": "api/seal", "security/guard_none": None,
    "security/opener_none": None, "security/packet_key": "security/guard", "security/signature_none": None,
    "security/aead_mb": "security/aead",
    "failover/catch_up": "failover/failover", "failover/messages": "failover/failover", "failover/snapshot": "failover/failover", "failover/takeover": "failover/failover", "failover/wire": "failover/failover",
}


def check_mirror(tree):
    """Each source has a unit test in the folder of the same name, or one that is listed here."""
    for path in tree.files("*.c", under=("src",)):
        name = tree.name(path)[len("src/"):-len(".c")]
        has = (tree.source / "tests" / "unit" / f"{name}.c").exists()
        if has and name in COVERED_BY:
            problem(tree.name(path), 1, f"has a unit test, tests/unit/{name}.c, and is listed in COVERED_BY",
                    f"remove {name} from COVERED_BY of tests/tidy/tidy.py")
        elif not has and name not in COVERED_BY:
            problem(tree.name(path), 1, "has no unit test",
                    f"write tests/unit/{name}.c, or name the test that covers it in COVERED_BY of tests/tidy/tidy.py")
        other = COVERED_BY.get(name)
        if other is not None and not (tree.source / "tests" / "unit" / f"{other}.c").exists():
            problem("tests/tidy/tidy.py", 1, f"COVERED_BY names tests/unit/{other}.c, which does not exist", "name the test that covers it")


def check_tests(tree):
    """Each source of tests/unit is listed in the meson.build there; meson takes no colon in the name of a test."""
    unit = tree.source / "tests" / "unit"
    for path in tree.files("*.c", under=("tests/unit",)):
        name, where = path.stem, str(path.parent.relative_to(unit))
        listed_in = path.parent / "meson.build" if (path.parent / "meson.build").exists() else unit / "meson.build"
        text = listed_in.read_text(encoding="utf-8")
        if listed_in.parent == unit:
            found = re.search(rf"^  '{where}': \[[^\]]*'{name}'", text, re.M) or re.search(rf"'{where}/{name}\.c'|'{name}': '{where}'", text)
        else:
            found = re.search(rf"'{name}(\.c)?'", text)
        if not found:
            problem(tree.name(path), 1, f"is not listed in {tree.name(listed_in)}, so it is not built",
                    f"add '{name}' to the row '{where}' of the table unit_tests" if listed_in.parent == unit else f"add '{name}' to the list of tests")
    for path in tree.files("meson.build", under=("tests",)):
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(r"\btest\('[^']*:", line):
                problem(tree.name(path), number, "the name of a test has a colon, for which meson writes _", "leave it out")


def check_exports(tree):
    """The shared library exports what is in symbols.txt."""
    listed_in = tree.source / "tests" / "tidy" / "symbols.txt"
    status, text = run("nm", "-D", "--defined-only", str(tree.build / "libllm.so"))
    if status != 0:
        problem(tree.build / "libllm.so", 1, "nm cannot read it", "build the library first")
        return
    exported = {line.split()[2] for line in text.splitlines() if len(line.split()) == 3}
    listed = {line: number for number, line in enumerate(tree.lines(listed_in), 1) if line and not line.startswith("#")}
    for name in sorted(exported - set(listed)):
        problem(tree.name(listed_in), 1, f"libllm.so exports {name}, which is not listed",
                "make it static or hidden; if it is new in llm.h, list it")
    for name in sorted(set(listed) - exported):
        problem(tree.name(listed_in), listed[name], f"libllm.so does not export {name}",
                "removing a function breaks programs: put it back, or remove the line and raise the soname")


def check_header(tree):
    """The public headers compile alone, as C and as C++."""
    compilers = (("gcc", "c", "c11"), ("g++", "c++", "c++17"), ("clang", "c", "c11"), ("clang++", "c++", "c++17"),
                 ("clang-14", "c", "c11"), ("clang++-14", "c++", "c++17"))
    with tempfile.TemporaryDirectory() as directory:
        unit = pathlib.Path(directory) / "alone.c"
        headers = tree.source / "include" / "llm"
        for header in sorted([*headers.glob("*.h"), *headers.glob("*.hpp")]):
            unit.write_text(f"#include <llm/{header.name}>\n")
            for compiler, language, standard in compilers:
                if shutil.which(compiler) is None or (header.suffix == ".hpp" and language == "c"):
                    continue
                standard = "c++20" if header.name == "coroutine.hpp" else standard
                status, text = run(compiler, "-x", language, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
                                   "-pedantic", "-Werror", f"-I{tree.source / 'include'}", str(unit))
                if status != 0:
                    first = next((line for line in text.splitlines() if "error" in line), text.strip())
                    problem(tree.name(header), 1, f"{compiler} -std={standard}: {first}", "the header must compile alone")


# ------------------------------------------------------------------------------------------------------- files


def check_licence(tree):
    """Every source and script names the licence."""
    scripts = [path for path in tree.files("*") if path.suffix == "" and path.read_bytes()[:2] == b"#!"]
    for path in tree.files("*.c", "*.h", "*.cpp", "*.hpp", "*.py", "*.rs", "*.sh", "meson.build") + scripts:
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in tree.lines(path)[:3]):
            problem(tree.name(path), 1, "no SPDX-License-Identifier: Apache-2.0 in the first three lines", "add it")


def ignored(tree, path):
    """True for a build directory, or a name in .gitignore."""
    listed = tree.source / ".gitignore"
    patterns = [line.strip("/") for line in tree.lines(listed)] if listed.exists() else []
    return path.resolve() == tree.build or any(pattern and path.match(pattern) for pattern in patterns)


def check_top_level(tree):
    """The top level contains only the expected files."""
    for path in sorted(tree.source.iterdir()):
        if path.name not in TOP_LEVEL and not path.name.startswith(".") and not ignored(tree, path):
            problem(path.name, 1, "does not belong to the top level", f"move it below one of {', '.join(sorted(TOP_LEVEL))}")


# --------------------------------------------------------------------------------------------------- documents


def code_lines(tree, path):
    """(line, text) inside the fenced code blocks of a document."""
    inside = False
    for number, line in enumerate(tree.lines(path), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            yield number, line.strip()


def check_readme_commands(tree):
    """The commands that README.md shows exist."""
    readme = tree.source / "README.md"
    if not readme.exists():
        problem("README.md", 1, "is missing", "write it")
        return
    for number, line in code_lines(tree, readme):
        match = re.match(r"(?:\$ |# |sudo )*(?:\./)?((?:bench|tests)/run)\b\s*([a-z][\w-]*)?", line)
        if not match:
            continue
        program = tree.source / match.group(1)
        command = [str(program)] + ([match.group(2)] if match.group(2) else []) + ["--help"]
        if not program.exists():
            problem("README.md", number, f"{match.group(1)} does not exist", "write it, or show what there is")
        elif run(*command)[0] != 0:
            problem("README.md", number, f"{' '.join([match.group(1)] + command[1:])} fails",
                    "show a subcommand that there is, and let each know --help")


def code_faults(tree, path, head=""):
    """Problems of the C code in a document, each block with head in front of it."""
    text = path.read_text(encoding="utf-8")
    compiler = next((name for name in ("gcc", "clang", "clang-14") if shutil.which(name)), None)
    with tempfile.TemporaryDirectory() as directory:
        unit = pathlib.Path(directory) / "example.c"
        for match in re.finditer(r"^```c\n(.*?)^```$", text, re.M | re.S):
            unit.write_text(head + match.group(1))
            status, output = run(compiler, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-function",
                                 f"-I{tree.source / 'include'}", str(unit)) if compiler else (0, "")
            if status != 0:
                first = next((line for line in output.splitlines() if "error" in line), output.strip())
                problem(tree.name(path), text.count("\n", 0, match.start()) + 1, first, "correct the code: people copy it")


def check_readme_code(tree):
    """The programs in README.md compile, and the functions in docs/recipes.md."""
    code_faults(tree, tree.source / "README.md")
    code_faults(tree, tree.source / "docs" / "recipes.md", "#define _GNU_SOURCE\n#include <llm/llm.h>\n")


GUIDES = ("migration.md", "operations.md", "recipes.md")
# Functions and constants; options and counters, which stand alone or before a value.
GUIDE_NAMES = re.compile(r"\b(?:llm_\w+(?=\()|LLM_\w*[A-Z]\b)|(?<=`)[a-z]+(?:_[a-z0-9]+)+(?=`|=)")
# Names of other libraries, of the kernel, and of units of systemd.
FOREIGN_NAMES = re.compile(r"(lbm|ume|aeron|zmq)_|implicit_batching|transport_lbtrm|late_join|nohz_full|LLM_STAT_ADDRESS")


def check_names(tree):
    """Functions, constants, options and counters of libllm that the guides name exist."""
    docs = tree.source / "docs"
    known = "\n".join(path.read_text(encoding="utf-8") for path in sorted((tree.source / "include" / "llm").glob("*.h")))
    names = set(re.findall(r"\w+", known)) | {f"LLM_{prefix}{name}" for prefix, macro in (("", "LLM_ERRORS"), ("LIMIT_", "LLM_LIMITS"))
                                             for name in re.findall(r"X\((\w+), ", known[known.index(macro):])}
    for path in (docs / "statistics.md", docs / "man" / "llm_options.7"):
        names.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for path in (docs / name for name in GUIDES):
        for number, line in enumerate(tree.lines(path), 1):
            for name in GUIDE_NAMES.findall(line):
                if name not in names and not FOREIGN_NAMES.match(name):
                    problem(tree.name(path), number, f"{name} does not exist", "use a name of the public headers or of docs/statistics.md")


def counters(tree):
    """(file, line, name) of every counter."""
    for path in tree.files("*.h", under=("src", "transports")):
        inside = False
        for number, line in enumerate(tree.lines(path), 1):
            inside = inside or re.match(r"#define (\w+_COUNTERS|LLI_LATENCY_\w+)\(X\)", line) is not None
            match = re.search(r"\bX\((\w+),", line)
            if inside and match:
                yield tree.name(path), number, match.group(1)
            inside = inside and line.rstrip().endswith("\\")
    for path in tree.files("*.c", under=("src", "transports")):
        inside = False
        for number, line in enumerate(tree.lines(path), 1):
            inside = inside or "struct lli_counter" in line and line.rstrip().endswith("{")
            match = re.match(r'\s+\{"(\w+)",', line) if inside else re.search(r'\blli_stats_put\([^"]*"(\w+)"', line)
            if match:
                yield tree.name(path), number, match.group(1)
            inside = inside and not line.startswith("}")


def compare_counter_texts(tree, rows):
    """Each row of an X-macro of counters has a text, with which its row in docs/statistics.md begins. rows: (line, text) by name."""
    for path in tree.files("*.h", under=("src", "transports")):
        text = path.read_text(encoding="utf-8")
        for table in re.finditer(r"#define \w+_COUNTERS\(X\)(?:.*\\\n)*.*\n", text):
            for row in re.finditer(r'\bX\((\w+),((?:[\s\\]*"[^"]*")+)[\s\\]*\)', table.group(0)):
                name, words = row.group(1), "".join(re.findall(r'"([^"]*)"', row.group(2))).strip()
                number = text.count("\n", 0, table.start() + row.start()) + 1
                if not words:
                    problem(tree.name(path), number, f"the counter {name} has no text", "say what it counts, in words of users")
                elif name in rows and not any(found.replace("`", "").startswith(words) for _, found in rows[name]):
                    problem("docs/statistics.md", rows[name][0][0], f"the row of {name} does not begin with the counter's text",
                            f"write | `{name}` | {words} |, and more after it if users need it")


def check_statistics(tree):
    """docs/statistics.md lists every counter, and no other."""
    page = tree.source / "docs" / "statistics.md"
    if not page.exists():
        problem("docs/statistics.md", 1, "is missing", "write it: a table with a row for every counter")
        return
    rows = {}
    for number, line in enumerate(tree.lines(page), 1):
        cells = line.split("|")
        if len(cells) > 2:
            names = re.findall(r"`(\w+)`", cells[1])
            for name in names:
                rows.setdefault(name, []).append((number, cells[2].strip()))
            if names and not cells[2].strip():
                problem("docs/statistics.md", number, f"the row of {names[0]} says nothing", "say what it counts, in words of users")
    compare_counter_texts(tree, rows)
    known = set()
    for path, number, name in counters(tree):
        known.add(name)
        if name not in rows:
            problem(path, number, f"the counter {name} is not in docs/statistics.md",
                    f"add the row | `{name}` | what it counts | to the table of its object, at the same place")
    for name in sorted(set(rows) - known):
        problem("docs/statistics.md", rows[name][0][0], f"there is no counter {name}", "remove the row")


def check_adr(tree):
    """docs/adr/README.md lists every record by number and title; no number, name or title is missing or used twice."""
    index = tree.source / "docs" / "adr" / "README.md"
    rows, numbers, seen = {}, [], {}
    for number, line in enumerate(tree.lines(index), 1):
        match = re.match(r"\| (\d+) \| \[(.+)\]\((\S+)\) \| .+ \|$", line)
        if match:
            rows[match.group(3)] = (number, int(match.group(1)), match.group(2))
            numbers.append(int(match.group(1)))
    if numbers != sorted(set(numbers)):
        problem(tree.name(index), 1, "the numbers do not increase from row to row", "give each record one row, in order")
    unused = re.search(r"^Numbers never used: ([\d, ]+)\.$", index.read_text(encoding="utf-8"), re.M)
    unused = {int(number) for number in unused.group(1).split(", ")} if unused else set()
    for number in sorted(set(range(1, max(numbers, default=0) + 1)) ^ set(numbers) ^ unused):
        problem(tree.name(index), 1, f"number {number} is neither a record nor named as never used, or both",
                "correct the row or the line `Numbers never used`")
    for path in sorted(index.parent.glob("*.md")):
        if path == index:
            continue
        heading = re.match(r"# (\d+)\. (.+)$", tree.lines(path)[0])
        name = re.match(r"(\d{4})-([a-z0-9-]+)\.md$", path.name)
        if not heading or not name or int(heading.group(1)) != int(name.group(1)):
            problem(tree.name(path), 1, "the file is not NNNN-title.md with the heading `# N. Title`", "rename it, or correct the heading")
            continue
        for what in (f"number {int(name.group(1))}", f"name {name.group(2)}", f"title {heading.group(2)}"):
            if what in seen:
                problem(tree.name(path), 1, f"has the {what} of {seen[what]}", "choose another")
            seen.setdefault(what, tree.name(path))
        if rows.pop(path.name, (0, 0, ""))[1:] != (int(heading.group(1)), heading.group(2)):
            problem(tree.name(index), 1, f"does not list {path.name} with its number and title",
                    f"add the row | {int(heading.group(1))} | [{heading.group(2)}]({path.name}) | what it decides |")
    for name, (number, _, _) in rows.items():
        problem(tree.name(index), number, f"lists {name}, which does not exist", "remove the row")


def check_adr_folders(tree):
    """The table by folder in docs/adr/README.md names folders that exist, and each record."""
    index = tree.source / "docs" / "adr" / "README.md"
    text = index.read_text(encoding="utf-8").partition("## By folder")[2]
    named = set(re.findall(r"\d+", "".join(re.findall(r"^Records .*$", text, re.M))))
    for path, numbers in re.findall(r"^\| `(\S+)` \| ([\d, ]+) \|$", text, re.M):
        named.update(numbers.split(", "))
        if not (tree.source / path).is_dir():
            problem(tree.name(index), 1, f"the table by folder names {path}, which is no folder", "correct the row")
    numbers = {str(int(path.name[:4])) for path in index.parent.glob("[0-9][0-9][0-9][0-9]-*.md")}
    for number in sorted(named ^ numbers, key=int):
        problem(tree.name(index), 1, f"the table by folder has record {number}, which does not exist" if number in named else
                f"the table by folder does not have record {number}", "correct the row of the folder that it decides about")


# Names that check_retired_words() accepts: a flag of docs/protocol.md, and a name of Onload.
RETIRED_NAMES_ALLOWED = {"LLI_WIRE_HEARTBEAT_HELD", "ONLOAD_ZC_KEEP"}


def retired_words(tree):
    """The bold words in the last column of docs/glossary.md, with their regular inflections, lower case: {form: word to write}."""
    forms = {}
    for line in tree.lines(tree.source / "docs" / "glossary.md"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 4:
            continue
        for word in re.findall(r"\*\*([a-z]+)\*\*", cells[3]):
            stem = word.removesuffix("e")
            for form in (word, word + "s", stem + "ed", stem + "er", stem + "ers", stem + "ing"):
                forms.setdefault(form, []).append(cells[0])
    return forms


def comments_and_identifiers(path):
    """(line, text) of each comment and identifier of a C or Lua file; strings are left out."""
    comment = r"--[^\n]*" if path.suffix == ".lua" else r"/\*.*?\*/|//[^\n]*"
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in re.finditer(comment + r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*", text, re.S):
        if match.group(0)[0] not in "\"'":
            for number, line in enumerate(match.group(0).split("\n"), text.count("\n", 0, match.start()) + 1):
                yield number, line


def check_retired_words(tree):
    """No identifier or comment has a word that docs/glossary.md retires everywhere."""
    forms = retired_words(tree)
    if not forms:
        problem("docs/glossary.md", 1, "no word in a last column is bold", "mark the words that are retired everywhere: **word**")
    for path in tree.files("*.c", "*.h", "*.lua", under=("src", "transports", "include", "tools")):
        for number, text in comments_and_identifiers(path):
            for name in re.findall(r"[A-Za-z_]\w*", text):
                found = [] if name in RETIRED_NAMES_ALLOWED else [part for part in re.findall(r"[a-z]+", name.lower()) if part in forms]
                if found:
                    problem(tree.name(path), number, f"{name}: {found[0]} is retired",
                            f"use a word of docs/glossary.md: {' or '.join(dict.fromkeys(forms[found[0]]))}")


def check_comments(tree):
    """No comment begins with a relative clause: its first word names the thing."""
    for path in tree.files("*.c", "*.h", "*.hpp", "*.sh", "*.py", "*.rs", under=("src", "transports", "include", "tools", "tests", "bench", "examples", "bindings")):
        opened = ""  # beginning of a comment whose text is on the next line
        for number, line in enumerate(tree.lines(path), 1):
            found = re.match(r"\s*(?:/\*\*?|//[/!]?|#) (What|Who|Whom|Whose|Which) [a-z]", opened + line.lstrip(" *") if opened else line)
            opened = "/* " if line.strip() in ("/*", "/**") else ""
            if found:
                problem(tree.name(path), number, f"the comment begins with \"{found[1]}\"", "begin with the noun that it stands for")


def shell_functions(tree, path):
    """(line, name, name in the entry above it or None) of each function of a file of tests/e2e, and of each entry without one."""
    entry, inside = None, False
    for number, line in enumerate(tree.lines(path), 1):
        named = re.match(r"e2e (\w+)", line)
        function = re.match(r"(\w+)\(\) \{$", line)
        if entry and not inside and not function:
            yield number - 1, None, entry
            entry = None
        if named:
            entry = named.group(1)
        elif function:
            yield number, function.group(1), entry
            entry = None
        inside = line.endswith("\\") and entry is not None


def check_e2e(tree):
    """Each end-to-end test is a function below its entry; a function without an entry is called by another one."""
    files = tree.files("*.sh", under=("tests/e2e",))
    code = re.sub(r"(?m)^\s*#.*$|^\w+\(\) \{$", "", "\n".join(path.read_text(encoding="utf-8") for path in files))
    called = set(re.findall(r"\w+", code))
    seen = {}
    for path in files:
        for number, name, entry in shell_functions(tree, path):
            if entry is not None and name != entry:
                problem(tree.name(path), number, f"the entry of {entry} is not right above its function", f"write {entry}() {{ on the next line")
            elif name in seen:
                problem(tree.name(path), number, f"{name}() is also in {seen[name]}", "rename it: all files share their functions")
            elif entry is None and name not in called and not re.match(r"(need|settle|possible)_", name):
                problem(tree.name(path), number, f"{name}() is neither called nor a test",
                        f"if it is a test, write its entry on the line above: e2e {name}; lib/entry.sh describes the fields")
            seen.setdefault(name, tree.name(path))
    status, text = run("bash", str(tree.source / "tests" / "e2e" / "run.sh"), str(tree.build), "--plan")
    if status != 0:
        problem("tests/e2e/run.sh", 1, "--plan fails: " + text.strip().replace("\n", "; "), "correct the entries")


def check_manual(tree):
    """The manual pages agree with the headers."""
    status, text = run(sys.executable, str(tree.source / "docs" / "man" / "check.py"))
    if status != 0:
        problems.extend(line.strip() for line in text.strip().splitlines())


CHECKS = {name[len("check_"):]: function for name, function in sorted(globals().items()) if name.startswith("check_")}


def main(arguments):
    if len(arguments) < 2 or any(name not in CHECKS for name in arguments[2:]):
        print(f"{__doc__}\nChecks: {' '.join(CHECKS)}", file=sys.stderr)
        return 2
    tree = Tree(arguments[0], arguments[1])
    for name in arguments[2:] or CHECKS:
        before = len(problems)
        CHECKS[name](tree)
        print(f"{name}: {'ok' if len(problems) == before else f'{len(problems) - before} problems'}")
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
