# SPDX-License-Identifier: Apache-2.0
"""The wheel and the source distribution."""
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

from conftest import EXTENT, SOURCE


def test_wheel_and_source_distribution_are_built(tmp_path):
    if EXTENT == "short":
        pytest.skip("run-test.sh BUILD_DIR all builds them")
    pytest.importorskip("mesonpy", reason="python3-mesonpy is not installed")
    # The source distribution is of a commit: a repository of the package alone.
    package = tmp_path / "package"
    subprocess.run(["cp", "-r", SOURCE / "bindings" / "python", package], check=True)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=package, check=True)
    build = "import mesonpy, sys; mesonpy.build_sdist(sys.argv[1]); mesonpy.build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=package, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = pathlib.Path(tmp_path).glob("libllm-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"libllm/__init__.py", "libllm/py.typed", "libllm/_llm.pyi"} <= set(names)
    assert any(name.startswith("libllm/_llm.") and name.endswith(".so") for name in names)
    archive, = pathlib.Path(tmp_path).glob("libllm-*.tar.gz")
    assert any(name.endswith("src/queue.c") for name in tarfile.open(archive).getnames())
    # The wheel works from its place.
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    subprocess.run([sys.executable, "-c", "import libllm; libllm.Context(huge_pages=False).close()"], cwd=tmp_path, check=True,
                   env={**os.environ, "PYTHONPATH": str(unpacked)})
