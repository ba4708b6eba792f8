# SPDX-License-Identifier: Apache-2.0
"""Pages of the public headers for docs/site/build: a heading for each declared name, with its comment and its declaration.

A header is a series of entries: a comment and the declarations below it, up to the next blank line. Left out are #include, include
guards, extern "C", the namespace, the namespace detail and, of C++, bodies of functions and private members.
"""
import pathlib
import re

COMMENT = r"/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*"
SKIP = re.compile(rf"{COMMENT}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.S)
DIRECTIVE = re.compile(r"#[^\n]*?(?:\\\n[^\n]*?)*(?=\n|$)")
# Removed before a header is read.
FRAME = (r"^/\* SPDX-[^\n]*\n", r"^// SPDX-[^\n]*\n(?://\n)?", r"^#ifndef LLM_\w+_HP*\n#define LLM_\w+_HP*\n", r"\n#endif\s*\Z",
         r"^#ifdef __cplusplus\n(?:extern \"C\" \{|\})\n#endif\n", r"^#include [^\n]*\n", r"^(?:/\*|//) -{9,}[^\n]*\n",
         r"^/\* clang-format o(?:n|ff) \*/\n", r"^namespace detail\n\{\n.*?^\} // namespace detail\n",
         r"^namespace llm\n\{\n", r"^\} // namespace llm\n", r"^#if defined\(__cpp_exceptions\)\n(.*?)^#endif\n")


class Entry:
    def __init__(self, comment, code, names):
        self.comment, self.code, self.names = comment, code, names


# ---------------------------------------------------------------------------------------------------- headers


def statement_end(text, at):
    """Offset after the statement, with its comment on the same line."""
    depth = 0
    while at < len(text):
        skip = SKIP.match(text, at)
        if skip:
            at = skip.end()
            continue
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[at], 0)
        at += 1
        if depth == 0 and (text[at - 1] == ";" or text[at - 1] == "}" and not re.compile(r"\s*[;,)]").match(text, at)):
            rest = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/|//[^\n]*)?(?=\n|$)").match(text, at)
            return rest.end() if rest else at
    raise ValueError(f"a declaration without an end: {text[:60]!r}")


def without_comments(text):
    return re.sub(COMMENT, "", text, flags=re.S)


def names_of(code):
    """The names that a declaration gives a heading: [(heading, name by which texts refer to it)]."""
    bare = without_comments(code).strip()
    if bare.startswith("#"):
        return [(name, name) for name in dict.fromkeys(re.findall(r"^# *define (\w+)", bare, re.M))]
    bare = re.sub(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*", "", bare)
    found = re.match(r"(class|struct|enum)\s+(?:\[\[nodiscard\]\]\s+)?(\w+)\s*(?:[;:{]|\Z)", bare)
    if found:
        return [(f"{found[1]} {found[2]}", f"{found[1]} {found[2]}")]
    if re.match(r"enum\s*\{", bare):
        return [(name, name) for name in re.findall(r"\b([A-Z]\w+)(?=\s*[=,}])", bare)]
    found = re.match(r"using (\w+) =", bare) or re.match(r"[^(=]*?(\w+) =", bare)
    if found:
        return [(found[1], found[1])]
    found = re.match(r"[^(]*?\b(\w+)\(", bare)
    if not found or "->" in bare:
        return []
    return [(found[1] if bare.startswith("typedef") else f"{found[1]}()", found[1])]


def without_bodies(code):
    """The declaration with neither bodies of functions, nor initialisers of members, nor private members."""
    found = re.match(r"((?:template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*)?(?:class|struct)\b[^{;]*)\{\n?(.*)\};?\s*\Z", code, re.S)
    if not found:
        depth = 0
        for at, sign in enumerate(code):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if depth == 0 and (sign == "{" or re.match(r"(?<![:\w]):(?!:)", code[at:]) and code[at - 1].isspace()):
                return code[:at].rstrip() + ";"
        return code
    inside, lines, at, hidden = found[2], [], 0, False
    while at < len(inside):
        other = re.compile(r"\s+|(?:public|private):|" + COMMENT + "|" + DIRECTIVE.pattern, re.S).match(inside, at)
        end = other.end() if other else statement_end(inside, at)
        if other and other[0] in ("public:", "private:"):
            hidden = other[0] == "private:"
        if not hidden:
            lines.append(other[0] if other else without_bodies(inside[at:end]))
        at = end
    body, indent = "".join(lines).rstrip(), re.search(r"[ \t]*\Z", found[2])[0]
    return f"{found[1]}{{\n{body}\n{indent}}};" if body else f"{found[1]}{{}};"


def entries(text, is_cpp):
    """The first comment of a header, and its entries."""
    for pattern in FRAME:
        text = re.sub(pattern, lambda match: match.group(1) if match.re.groups else "", text, flags=re.M | re.S)
    found, comment, last, at = [], None, None, 0
    while at < len(text):
        blank = re.compile(r"\s+").match(text, at)
        if blank:
            if blank[0].count("\n") > 1:
                if comment is not None:
                    found.append(Entry(comment, [], []))
                comment, last = None, None
            at = blank.end()
            continue
        note = re.compile(COMMENT, re.S).match(text, at)
        if note:
            if comment is not None:
                found.append(Entry(comment, [], []))
            comment, last, at = note[0], None, note.end()
            continue
        end = conditional_end(text, at) if text.startswith("#if", at) else DIRECTIVE.match(text, at).end() if text[at] == "#" \
            else statement_end(text, at)
        code, at = text[at:end], end
        names = names_of(code)
        if last is None:
            last = Entry(comment, [], [])
            found.append(last)
        last.code.append(without_bodies(code) if is_cpp or code.startswith("static inline") else code)
        last.names += names
        comment = None
    first = found.pop(0).comment if found and not found[0].code else ""
    if is_cpp:  # a forward declaration has no heading where the class has one
        defined = {name for entry in found for code in entry.code if "{" in code for _, name in names_of(code)}
        for entry in found:
            entry.code = [code for code in entry.code if not (re.fullmatch(r"class \w+;", code) and code[:-1] in defined)]
            entry.names = list(dict.fromkeys(name for code in entry.code for name in names_of(code)))
    return first, [entry for entry in found if entry.code or entry.comment]


def conditional_end(text, at):
    end = re.compile(r"^#endif[^\n]*", re.M).search(text, at)
    return end.end()


def enumerators(text):
    """Enumerator to name of its enumeration, also of those that an X-macro lists."""
    for tag, body in re.findall(r"^enum (\w+) \{(.*?)\};", text, re.M | re.S):
        for name in re.findall(r"\b(LLM_\w+)(?=\s*[=,}]|\s*\Z)", re.sub(r"^ *#.*$", "", without_comments(body), flags=re.M)):
            yield name, f"enum {tag}"
        for macro, prefix in re.findall(r"#define (\w+)\(name, .*\) (LLM_\w*?)##name", body):
            table = re.search(rf"(LLM_\w+)\({macro}\)", body)[1]
            for name in re.findall(r"X\((\w+), ", re.search(rf"^#define {table}\(X\).*?[^\\]$", text, re.M | re.S)[0]):
                yield prefix + name, f"enum {tag}"


# ------------------------------------------------------------------------------------------------------- text


def plain(comment):
    """The lines of a comment without its marks."""
    if comment.startswith("//"):
        lines = [re.sub(r"^[ \t]*// ?", "", line) for line in comment.split("\n")]
    else:
        lines = [re.sub(r"^[ \t]*\*(?: |$)", "", line) for line in comment[2:-2].rstrip().split("\n")]
        lines[0] = lines[0].strip()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def escape(text):
    return re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def slug_of(heading):
    """The anchor that mkdocs makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


class Reference:
    """All headers, and the links between them."""

    def __init__(self, directory, root, pages, aliases):
        self.root, self.pages, self.aliases = root, pages, aliases
        names = sorted(file.name for file in directory.glob("*.h*"))
        self.names = sorted(names, key=lambda name: (name.endswith(".hpp"), not name.startswith("llm."), name))
        self.texts = {name: (directory / name).read_text(encoding="utf-8") for name in self.names}
        self.headers = {name: entries(text, name.endswith(".hpp")) for name, text in self.texts.items()}
        self.targets, self.slugs = {}, {}
        for name, (_, found) in self.headers.items():
            for heading, key in (pair for entry in found for pair in entry.names):
                slug = slug_of(heading)
                self.slugs.setdefault(name, []).append(slug)
                self.targets.setdefault(f"llm::{key.split()[-1]}" if name.endswith(".hpp") else key, f"{name}.md#{slug}")
        for text in self.texts.values():
            for name, owner in enumerators(text):
                self.targets.setdefault(name, self.targets[owner])

    def problems(self):
        """One line for each name that a header declares and that has no heading of its own."""
        for name, text in self.texts.items():
            bare, is_cpp = without_comments(text), name.endswith(".hpp")
            if is_cpp:
                bare = re.sub(r"^namespace detail\n\{.*?^\} ", "", bare, flags=re.M | re.S)
            declared = re.findall(r"\bLLM_API\b(?!\s*(?:__attribute__|\n))[^;(]*?\b(\w+)\(", bare)
            declared += [f"{kind} {tag}" for kind, tag in re.findall(r"^(struct|enum) (\w+)(?= \{|;)", bare, re.M)]
            declared += [f"class {tag}" for tag in re.findall(r"^(?:template <.*?> )?class (?:\[\[nodiscard\]\] )?(\w+)", bare, re.M)]
            declared += [tag for tag in re.findall(r"^#define (LLM_\w+)", bare, re.M)
                         if not tag.endswith(("_H", "_HPP")) and f"#undef {tag}\n" not in bare]
            declared += re.findall(r"^(?:typedef .*?|using )(\w+)(?=\(| =)", bare, re.M)
            has = {key for entry in self.headers[name][1] for _, key in entry.names}
            for each in sorted(set(declared) - has):
                yield f"include/llm/{name} declares {each}, which has no heading: correct docs/site/reference.py"
            slugs = self.slugs.get(name, [])
            for slug in sorted({slug for slug in slugs if slugs.count(slug) > 1}):
                yield f"include/llm/{name} has two headings #{slug}: correct names_of() in docs/site/reference.py"

    def name(self, text):
        """Markdown of a name in a text."""
        name = text.removesuffix("()")
        target = next((self.targets[key] for key in (name, f"struct {name}", f"llm::{name}") if key in self.targets), None)
        return f"[`{text}`]({target})" if target else f"`{text}`"

    def inline(self, text):
        """A paragraph as Markdown, with links to headings, manual pages, headers and documents."""
        token = re.compile(r"`(?P<span>[^`]+)`|(?P<page>llm[\w-]*)\((?P<section>[137])\)|<?(?P<header>llm/\w+\.hp?p?)>?|(?P<file>docs/[\w/.-]+\.md)"
                           r"|(?P<name>(?:(?:struct|enum) )?\b(?:llm_\w+|LLM_\w+(?:\.\.\.)?|llm::\w+)(?:\(\))?"
                           r"|(?<!\w)(?:\.\.\.)?[a-z_][\w:]*\(\))|(?P<url>\w[\w+]*://[^\s\",;]+)")
        done, at = [], 0
        for match in token.finditer(text):
            done.append(escape(text[at:match.start()]))
            at, whole = match.end(), match[0]
            if match["page"]:
                page = self.manual(match["page"], match["section"])
                done.append(f"[{escape(whole)}]({page})" if page else escape(whole))
            elif match["header"] and match["header"][4:] in self.headers:
                done.append(f"[`{whole}`]({match['header'][4:]}.md)")
            elif match["file"] and (self.root / match["file"]).exists():
                done.append(f"[{whole}](../{whole})")
            elif match["name"]:
                done.append(self.name(whole))
            else:
                done.append(whole if match["span"] else f"`{whole}`")
        return "".join(done) + escape(text[at:])

    def manual(self, name, section):
        """The manual page that describes a name, relative to the pages of headers."""
        page = self.aliases.get(f"{name}.{section}", f"{name}.{section}")
        return f"../manual/{page}.md" if page in self.pages else None

    def markdown(self, comment):
        """A comment as Markdown: paragraphs, lists of a word and its text, numbered lists, and code."""
        blocks = []
        for paragraph in re.split(r"\n\s*\n", plain(comment)):
            lines = paragraph.split("\n")
            lead = [line for line in lines if not line.startswith("  ")]
            rest = [line for line in lines if line.startswith("  ")]
            if not lead and not re.match(r" +\d+\. ", rest[0]):
                blocks.append("```cpp\n" + "\n".join(line[2:] for line in rest) + "\n```")
                continue
            if lead:
                blocks.append(self.inline(re.sub(r"^(\d+)\.", r"\1\\.", " ".join(lead))))
            items = []
            for line in rest:
                if len(line) - len(line.lstrip()) == min(len(each) - len(each.lstrip()) for each in rest):
                    items.append([line.strip()])
                else:
                    items[-1].append(line.strip())
            blocks.append("\n".join(self.item(" ".join(item)) for item in items))
        return "\n\n".join(block for block in blocks if block)

    def item(self, text):
        number = re.match(r"(\d+)\. (.*)", text)
        if number:
            return f"{number[1]}. {self.inline(number[2])}"
        label = re.match(r"(\S+(?: \S+)*?)  +(.*)", text) or re.match(r"(\S+) ?(.*)", text)
        return f"- **{escape(label[1])}**: {self.inline(label[2])}"

    # ------------------------------------------------------------------------------------------------- pages

    def page(self, name):
        first, found = self.headers[name]
        parts = [f"# llm/{name}", self.markdown(first) if first else ""]
        for entry in found:
            parts += [f"## `{heading}`" for heading, _ in entry.names]
            if entry.comment:
                parts.append(self.markdown(entry.comment))
            if entry.code:
                code = re.sub(r"[ \t]+\\$", r" \\", "\n".join(entry.code), flags=re.M)
                parts.append(f"```{'cpp' if name.endswith('.hpp') else 'c'}\n{code}\n```")
            pages = dict.fromkeys(self.manual(key.split()[-1], section) for _, key in entry.names for section in (3, 7))
            parts += [f"[manual page]({page})" for page in pages if page]
        return "\n\n".join(part for part in parts if part) + "\n"

    def index(self):
        parts = ["# Reference", "The public headers, from their own text. A program includes `<llm/llm.h>`, or in C++ `<llm/llm.hpp>`. The "
                 "[manual pages](../manual/index.md) describe the functions at greater length."]
        for name in self.names:
            first, found = self.headers[name]
            links = [f"[`{heading}`]({name}.md#{slug_of(heading)})"
                     for entry in found for heading, _ in entry.names]
            # The first paragraph: the page has the rest.
            parts += [f"## [llm/{name}]({name}.md)", self.markdown(first).split("\n\n")[0] if first else "", ", ".join(links)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, stage):
        directory = pathlib.Path(stage) / "reference"
        directory.mkdir(exist_ok=True)
        for name in self.names:
            (directory / f"{name}.md").write_text(self.page(name), encoding="utf-8")
        (directory / "index.md").write_text(self.index(), encoding="utf-8")

    def nav(self):
        return "\n".join(["      - Index: reference/index.md"] + [f"      - llm/{name}: reference/{name}.md" for name in self.names])
