# SPDX-License-Identifier: Apache-2.0
"""instructions for each message, under valgrind

docs/performance.md explains the table.
"""
import os
import shutil
import subprocess

from runner import options as opt
from runner.session import BIND, PACKAGES, RELEASE, ROOT, build, packages

OPTIONS = (opt.flag("profile", "also print the functions with the most instructions"),
           opt.flag("record", "record the figures as the bounds that tests/run checks"))


def run(bench):
    packages(*PACKAGES, "valgrind")
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    device = bench.programs / "cost_device"
    words = [*BIND, ROOT / "bench/cost.py", bench.programs / "cost", *(("--device", device) if device.exists() else ())]
    words += [f"--{name}" for name in ("profile", "record") if getattr(bench.o, name)]
    status = subprocess.run(words, check=False).returncode
    print()
    return status or subprocess.run([*BIND, ROOT / "bench/languages.py", *languages(bench.programs)], check=False).returncode


def languages(programs):
    """The programs that do the same in each language, those that could be built."""
    words = [programs / "cost_c"]
    if (programs / "cost_cpp").exists():
        words += ["--cpp", programs / "cost_cpp"]
    # The package llm-bench has no source of the crates.
    if shutil.which("cargo") and (ROOT / "bindings/rust").is_dir():
        target = programs.parent / "rust"
        # The library's run path is that of the build, as for the other programs.
        environment = dict(os.environ, CARGO_TARGET_DIR=str(target), LLM_LIB_DIR=str(programs.parent), CARGO_NET_OFFLINE="true",
                           RUSTFLAGS=f"-Clink-arg=-Wl,-rpath,{programs.parent}")
        subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "cost_rust"], cwd=ROOT / "bindings/rust", env=environment,
                       check=True)
        words += ["--rust", target / "release/cost_rust"]
    return words
