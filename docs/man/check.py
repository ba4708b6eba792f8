#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the manual pages with the public headers and the options of the transports, and has mandoc look at them.

    docs/man/check.py [DIRECTORY_OF_HEADERS]

Fails if a function has no page or another prototype in it, if llm(7) does not list it, if a constant is described nowhere, if the
numbers and texts of the errors, the names of events and reasons or the defaults and ranges of the options differ, if a page is not installed, or if mandoc, where it is installed, warns.
"""
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include" / "llm"
TRANSPORTS = HERE.parent.parent / "transports"
PUBLIC = ("api.h", "error.h", "context.h", "options.h", "event.h", "transmitter.h", "receiver.h", "filter.h", "connection.h", "failover.h", "store.h")  # stats.h has no functions

problems = []


def problem(page, what, remedy):
    """A page is the name of a file in docs/man."""
    problems.append(f"docs/man/{page}: {what}; {remedy}")


def joined(text):
    """One blank where there was white space, none beside brackets and stars."""
    return re.sub(r"\s*([*(),])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()


def header_functions(header):
    """Name to prototype, of everything marked LLM_API."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    found = re.findall(r"^LLM_API\s+([^;#]*?)(\w+)\(([^;]*)\);", code, re.M)
    return {name: joined(f"{kind} {name}({arguments})") for kind, name, arguments in found}


def page_functions(page):
    """Name to prototype, of the synopsis of a page."""
    found = re.findall(r'^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)+)\.Fc', page, re.M)
    functions = {}
    for kind, name, arguments in found:
        arguments = ", ".join(argument.strip('"') for argument in re.findall(r"^\.Fa (.*)$", arguments, re.M))
        functions[name] = joined(f"{kind.strip(chr(34))} {name}({arguments})")
    return functions


def table(header, name, pattern):
    """The rows of an X-macro."""
    body = re.search(rf"#define {name}\(X\)(.*?[^\\])\n", header, re.S)
    return re.findall(pattern, body.group(1))


def plain(text):
    """A text of a page with its micro signs as letters."""
    return re.sub(r"\\\(mc", "u", text)


def check_functions(header, pages, targets):
    declared = header_functions(header)
    described = {}
    for name, page in pages.items():
        for function, prototype in page_functions(page).items():
            described[function] = name
            if function not in declared:
                problem(name, f"describes {function}, which no header declares", "remove it from the synopsis")
            elif prototype != declared[function]:
                problem(name, f"{prototype} is {declared[function]} in the header", "make .Ft, .Fo and .Fa the same")
    for function in declared:
        file = f"{function}.3"
        if function not in described:
            problem(file, f"no page has {function} in its synopsis", f"write the page, or add it to the page of a related call: "
                    f"`.Ft TYPE`, `.Fo {function}`, `.Fa \"TYPE NAME\"` for each argument, `.Fc`, each on a line")
        elif file not in pages and file not in targets:
            problem(file, "is missing", f"write it with the line `.so man3/{described[function]}`")
        elif file in targets and targets[file] != described[function]:
            problem(file, f"leads to {targets[file]}, and {described[function]} describes it", f"write `.so man3/{described[function]}`")
        elif file in pages and described[function] != file:
            problem(file, f"exists, and {described[function]} describes it, too", "describe it in one of them")
        elif f".Nm {function}" not in pages[described[function]]:
            problem(described[function], f"has no `.Nm {function}`", "add the line below .Sh NAME")


def check_errors(header, page):
    rows = table(header, "LLM_ERRORS", r'X\((\w+), (-?\d+), "([^"]*)"\)')
    described = re.findall(r"^\.It Dv LLM_(E\w+) Ta (-\d+) Ta (.*)$", page, re.M)
    for row in rows:
        if row not in described:
            problem("llm_error_text.3", f"has no LLM_{row[0]} with this number and text",
                    f"add or correct the line `.It Dv LLM_{row[0]} Ta {row[1]} Ta {row[2]}`")
    for row in described:
        if row not in rows:
            problem("llm_error_text.3", f"has LLM_{row[0]} {row[1]} \"{row[2]}\", and include/llm/error.h has not", "correct the line")


def header_options(header, name="LLM_OPTIONS"):
    """Key to (default, least, greatest) or, of a string, to its greatest length."""
    options = {}
    for kind, key, default, least, most, _ in table(
            header, name, r'X\((\w+), \w+, (\w+), ([^,]+), ([^,]+), ([^,]+), "([^"]*)"\)'):
        if kind == "word":
            options[key] = (default.split("_")[-1].lower(), least)
        elif kind == "str":
            options[key] = ("empty" if default == '""' else default.strip('"'), str(int(most) - 1))
        else:
            options[key] = tuple(str(2**64 - 1) if value == "UINT64_MAX" else value for value in (default, least, most))
    return options


def option_form(values):
    """The line of the page below `.It Cm NAME` that says the same as a row of the table; without values, all forms."""
    if values is None:
        return "`Default D; MIN to MAX.`, `Default D; at most N bytes of text.` or `Default D; a word, of enum E in the structure.`"
    if len(values) == 3:
        return "`Default {}; {} to {}.`".format(*values)
    return ("`Default {}; at most {} bytes of text.`" if values[1].isdigit() else
            "`Default {}; a word, of enum {} in the structure.`").format(*values)


def page_options(page):
    options = {}
    number = r"(\d+)(?: \([^)]*\))?"
    for key, line in re.findall(r"^\.It Cm (\w+)\n(.*)$", plain(page), re.M):
        integer = re.match(rf"Default {number}; {number} to {number}[ .]", line)
        text = re.match(r"Default (\S+); at most (\d+) bytes of text\.", line)
        word = re.match(r"Default (\S+); a word, of enum (\w+) in the structure\.", line)
        if integer or text or word:
            options[key] = (integer or text or word).groups()
        else:
            problem("llm_options.7", f'{key}: "{line}" has no default and range', f"the line below `.It Cm {key}` is {option_form(None)}")
    return options


SCALES = {"us": 10**3, "ms": 10**6, "s": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def check_scales(page):
    """What is in brackets after a number is the same number."""
    for number, scaled, unit in re.findall(r"(\d+) \((\d+) (\w+)\)", plain(page)):
        if int(number) != int(scaled) * SCALES.get(unit, 0):
            problem("llm_options.7", f"{number} is not {scaled} {unit}", "correct one of them")


def transport_options():
    """The same of the options of each transport, which its own headers have."""
    options = {}
    for path in sorted(TRANSPORTS.glob("*/*.h")):
        text = path.read_text()
        for name in re.findall(r"^#define (\w+_OPTIONS)\(X\)", text, re.M):
            options.update(header_options(text, name))
    if not options:
        problem("llm_options.7", f"no header below {TRANSPORTS} has a table of options", "declare one: #define LLI_X_OPTIONS(X)")
    return options


def check_options(header, page):
    declared = header_options(header) | transport_options()
    described = page_options(page)
    for key, values in declared.items():
        if key not in described:
            problem("llm_options.7", f"the option {key} is missing",
                    f"in the list of its object add `.It Cm {key}`, on the next line {option_form(values)}, then sentences")
        elif described[key] != values:
            problem("llm_options.7", f"{key}: default or range differs from the header", f"below `.It Cm {key}` write {option_form(values)}")
    for key in sorted(described.keys() - declared.keys()):
        problem("llm_options.7", f"there is no option {key}", f"remove `.It Cm {key}` and its text")
    check_scales(page)


def check_constants(header, pages):
    """Each constant is in a page; where a page gives its number in brackets, that is the header's."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    text = "\n".join(pages.values())
    for name, number in re.findall(r"\b(LLM_[A-Z_]+) = (\d+)", code):
        if not re.search(rf"\b{name}\b", text):
            problem("*.3", f"no page has the constant {name}", f"add `.It Dv {name}` to the list of its kind, in the page of the call that uses it")
        for told in re.findall(rf"^\.It Dv {name} Pq (\d+)$", text, re.M):
            if told != number:
                problem("*.3", f"{name} is {number}, and {told} in a page", f"write `.It Dv {name} Pq {number}`")


def check_references(pages, targets):
    for name, page in pages.items():
        for page_name, section in re.findall(r"^\.Xr (llm\w*) (\d)", page, re.M):
            if f"{page_name}.{section}" not in pages and f"{page_name}.{section}" not in targets:
                problem(name, f"refers to {page_name}({section}), which is missing", "correct the line .Xr")
    for name, target in targets.items():
        if target not in pages:
            problem(name, f"leads to {target}, which is no page", "name the page that describes it")


def check_overview(header, page):
    """llm(7) lists every function."""
    listed = set(re.findall(r"^\.Xr (llm_\w+) 3", page, re.M))
    for function in header_functions(header).keys() - listed:
        problem("llm.7", f"does not list {function}", f"add `.Xr {function} 3` to the list of its object")


def check_names(header, page):
    """llm_event_name(3) has the name that people read for each identifier."""
    code = (HERE.parent.parent / "src" / "system" / "error.c").read_text()
    names = re.findall(r'case (LLM_(?:EVENT|REASON|THRESHOLD)_\w+):\n\s+return "([^"]*)";', code)
    names += [(f"LLM_LIMIT_{name}", text) for name, _, text in table(header, "LLM_LIMITS", r'X\((\w+), (\d+), "([^"]*)"\)')]
    described = re.findall(r"^\.It Dv (LLM_\w+) Ta (.*)$", page, re.M)
    for row in set(names) ^ set(described):
        problem("llm_event_name.3", f"the page and the library differ in {row[0]} \"{row[1]}\"",
                "the line is `.It Dv NAME Ta TEXT`, with the text of src/system/error.c or of LLM_LIMITS")


def check_installed(names):
    installed = set(re.findall(r"'(\w+\.[37])'", (HERE / "meson.build").read_text()))
    for name in names - installed:
        problem("meson.build", f"does not install {name}", f"add '{name}' to the list")
    for name in installed - names:
        problem("meson.build", f"installs {name}, which is missing", "remove it from the list")


def check_lint(names):
    """Of the pages only: mandoc would have links where the aliases have .so, which a build installs as it is."""
    if not shutil.which("mandoc"):
        print("mandoc is not installed: the pages are not linted")
        return
    result = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *(HERE / name for name in sorted(names))],
                            capture_output=True, text=True, check=False)
    problems.extend((result.stdout + result.stderr).splitlines())


def main():
    headers = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HEADERS)
    header = "".join((headers / name).read_text() for name in PUBLIC)
    pages = {}
    targets = {}
    for file in HERE.glob("*.[37]"):
        text = file.read_text()
        alias = re.search(r"^\.so man\d/(\S+)$", text, re.M)
        if alias:
            targets[file.name] = alias.group(1)
        else:
            pages[file.name] = text

    check_functions(header, pages, targets)
    check_errors(header, pages.get("llm_error_text.3", ""))
    check_options(header, pages.get("llm_options.7", ""))
    check_constants(header, pages)
    check_references(pages, targets)
    check_overview(header, pages.get("llm.7", ""))
    check_names(header, pages.get("llm_event_name.3", ""))
    check_installed(pages.keys() | targets.keys())
    check_lint(pages.keys())
    for text in problems:
        print(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
