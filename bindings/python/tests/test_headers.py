# SPDX-License-Identifier: Apache-2.0
"""The package agrees with the headers, and its hints with the package."""
import ast
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import libllm
from conftest import EXTENT, SOURCE
from libllm import _llm

PACKAGE = pathlib.Path(libllm.__file__).parent


def test_enumerations_and_options_are_those_of_the_headers():
    assert subprocess.run([sys.executable, SOURCE / "bindings/python/generate.py", "--check"]).returncode == 0


@pytest.mark.parametrize("name", ["Options", "ContextOptions", "Assurance", "Cache", "Rate", "ReplayOptions", "StoreOptions"])
def test_defaults_are_those_of_the_library(name):
    assert dataclasses.asdict(getattr(libllm, name)()) == _llm.defaults(name)


def test_connections_have_defaults_of_their_own():
    assert libllm.connection_options(ttl=3) == libllm.Options(**{**_llm.defaults("connection"), "ttl": 3})
    assert libllm.connection_options().flow == libllm.Flow.WINDOW


def test_every_error_has_its_name():
    for code in libllm.ErrorCode:
        if code != 0:
            assert _llm.error(code)[0] == f"LLM_{code.name}" and code.name in str(libllm.Error(code))


def test_the_type_hints_have_what_the_extension_has():
    hints = ast.parse((PACKAGE / "_llm.pyi").read_text())
    hinted = {node.name for node in hints.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))} | {"version"}
    assert hinted == {name for name in dir(_llm) if not name.startswith("__")}
    for node in hints.body:
        if isinstance(node, ast.ClassDef):
            inside = {entry.name for entry in node.body if isinstance(entry, ast.FunctionDef)} - {"__init__"}
            there = {name for name in vars(getattr(_llm, node.name)) if not name.startswith("__")}
            assert inside == there, node.name
    assert (PACKAGE / "py.typed").exists()


def test_the_hints_are_sound(tmp_path):
    if EXTENT == "short":
        pytest.skip("run-test.sh BUILD_DIR all checks it")
    if shutil.which("mypy") is None:
        pytest.skip("mypy is not installed")
    # Without the hints of numpy, whose reading takes most of a minute.
    checked = subprocess.run(["mypy", "--cache-dir", tmp_path, "--ignore-missing-imports", "--no-site-packages", "-p", "libllm"],
                             capture_output=True, text=True,
                             env={**os.environ, "MYPYPATH": str(PACKAGE.parent)}, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
