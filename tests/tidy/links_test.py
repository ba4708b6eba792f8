#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that links.py finds broken links, and nothing else, in a tree of its own."""
import pathlib
import subprocess
import sys
import tempfile

PAGE = """# A heading: `code`, and more

[good](other.md) [good](other.md#twice-1) [good](#a-heading-code-and-more) [good](https://example.org/missing) [folder](folder)

A link in two
lines: [two
lines](missing.md), and code: `[no](link.md)`.

    [no](link.md) in an indented block

```
[no](link.md) in a fence
```

| table |
|---|
| [broken](other.md#absent) |

[out](../../etc) [text](file.txt#anchor)
"""
OTHER = "## Twice\n\n## Twice\n"
EXPECTED = ["page.md:7: the link to missing.md leads nowhere", "page.md:17: the link to other.md#absent has an anchor",
            "page.md:19: the link to ../../etc", "page.md:19: the link to file.txt#anchor has an anchor"]


def main():
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory) / "tree"
        (root / "folder").mkdir(parents=True)
        (root / "page.md").write_text(PAGE)
        (root / "other.md").write_text(OTHER)
        (root / "file.txt").write_text("anchor\n")
        (root / "made").mkdir()
        (root / "made/build.ninja").write_text("")
        (root / "made/page.md").write_text("[broken](missing.md)\n")
        done = subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name("links.py")), str(root)], capture_output=True,
                              text=True, check=False)
    lines = done.stdout.splitlines()
    right = done.returncode == 1 and len(lines) == len(EXPECTED) and all(map(str.startswith, lines, EXPECTED))
    if not right:
        print(f"status {done.returncode}, {done.stderr}found:", *lines, "expected:", *EXPECTED, sep="\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
