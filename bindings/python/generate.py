#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes libllm/_enums.py and libllm/_options.py from the headers of the C library.

generate.py [--check] [INCLUDE]   --check: writes nothing, and fails if a file differs
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = ("context", "options", "event", "error", "filter", "store", "transmitter")

# Class in Python, enumeration in C, prefix of its enumerators.
ENUMS = [
    ("Level", "llm_level", "LLM_LEVEL_"), ("WaitMode", "llm_wait_mode", "LLM_WAIT_"),
    ("LatencyLevel", "llm_latency_level", "LLM_LATENCY_"), ("Flow", "llm_flow", "LLM_FLOW_"),
    ("JoinMode", "llm_join_mode", "LLM_JOIN_"), ("JoinElse", "llm_join_else", "LLM_JOIN_ELSE_"),
    ("Order", "llm_order", "LLM_ORDER_"), ("Slow", "llm_slow", "LLM_SLOW_"),
    ("Acknowledger", "llm_acknowledger", "LLM_ACKNOWLEDGE_"), ("KeysMode", "llm_keys_mode", "LLM_KEYS_MODE_"),
    ("EventKind", "llm_event_kind", "LLM_EVENT_"), ("Reason", "llm_reason", "LLM_REASON_"),
    ("Threshold", "llm_threshold", "LLM_THRESHOLD_"), ("Limit", "LLM_LIMITS", "LLM_LIMIT_"),
    ("ErrorCode", "LLM_ERRORS", "LLM_"), ("PropertyType", "llm_property_type", "LLM_PROPERTY_"),
    ("StoreLevel", "llm_store_level", "LLM_STORE_"), ("StoreEngine", "llm_store_engine", "LLM_STORE_"),
    ("StoreFull", "llm_store_full", "LLM_STORE_"), ("TopicFlags", "llm_topic_flags", "LLM_TOPIC_"),
    ("SendFlags", "llm_send_flags", "LLM_SEND_"),
]
TYPES = {"u32": "int", "u64": "int", "str": "str"}
CLASSES = {c_name: (name, prefix) for name, c_name, prefix in ENUMS}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def members(text, c_name, prefix):
    if c_name.startswith("LLM_"):
        rows = re.search(rf"#define {c_name}\(X\)(.*?[^\\])\n", text, re.S).group(1)
        return re.findall(r"X\((\w+), (-?\d+),", rows)
    body = re.search(rf"enum {c_name} \{{(.*?)\}}", text, re.S).group(1)
    return [(name[len(prefix):], value) for name, value in re.findall(r"(LLM_\w+) = (\d+)", body)]


def enums(text):
    out = ["# SPDX-License-Identifier: Apache-2.0", "# Written by generate.py from the headers of the C library.",
           '"""Enumerations of libllm."""', "import enum", ""]
    for name, c_name, prefix in ENUMS:
        out += ["", f'class {name}({"enum.IntFlag" if name.endswith("Flags") else "enum.IntEnum"}):']
        out += [f"    {member} = {value}" for member, value in members(text, c_name, prefix)] + [""]
    return "\n".join(out)


def value_of(kind, tag, default):
    if kind == "word":
        name, prefix = CLASSES[tag]
        return f"_enums.{name}.{default[len(prefix):]}"
    return {"UINT64_MAX": str(2**64 - 1)}.get(default, default)


def options(text):
    rows = re.findall(r'X\((\w+), (\w+), (\w+), ([^,]+), ([^,]+), ([^,]+), "((?:[^"\\]|\\.)*)"\)', text)
    out = ["# SPDX-License-Identifier: Apache-2.0", "# Written by generate.py from the headers of the C library.",
           '"""Options of channels."""', "import dataclasses", "", "from . import _enums", "", "",
           "@dataclasses.dataclass", "class Options:", '    """Options of a channel; llm_options(7) describes them."""', ""]
    for kind, _scope, name, default, low, _high, words in rows:
        out += [f"    #: {words}", f"    {name}: {TYPES.get(kind) or '_enums.' + CLASSES[low][0]} = {value_of(kind, low, default)}"]
    return "\n".join(out) + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    include = pathlib.Path(arguments[0]) if arguments else HERE.parent.parent / "include"
    raw = "\n".join((include / "llm" / f"{header}.h").read_text() for header in HEADERS)
    text = without_comments(raw)
    different = False
    for path, wanted in (("_enums.py", enums(text)), ("_options.py", options(raw))):
        path = HERE / "libllm" / path
        if "--check" not in sys.argv:
            path.write_text(wanted)
        elif path.read_text() != wanted:
            print(f"{path} differs from the headers: run bindings/python/generate.py")
            different = True
    return different


if __name__ == "__main__":
    sys.exit(main())
