"""A module that does not compile ends the build of a working copy; a user's pip goes on without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import build_ext

ROOT = Path(__file__).parents[3]
MODULE = "rocketlake.base.java.java_compat"
ONE_MODULE = f"import build_ext, runpy; build_ext.COMPILED, build_ext.KERNELS = ({MODULE!r},), (); "
BUILD = "import sys; sys.argv = ['setup.py', 'build_ext', '--inplace']; runpy.run_path('setup.py')"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A working copy with one compiled module."""
    if not build_ext.choose_compiler():
        pytest.skip("this machine has no C compiler")
    for name in ("setup.py", "build_ext.py"):
        shutil.copy(ROOT / name, tmp_path)
    source = Path("src", *MODULE.split("."))
    (tmp_path / source).parent.mkdir(parents=True)
    for ending in (".py", ".pxd"):
        shutil.copy(ROOT / source.with_suffix(ending), tmp_path / source.with_suffix(ending))
    for folder in (tmp_path / source).relative_to(tmp_path / "src").parents:
        (tmp_path / "src" / folder / "__init__.py").touch()
    return tmp_path


def build(copy: Path, compiled: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ONE_MODULE + BUILD],
        cwd=copy,
        env=os.environ | {"ROCKETLAKE_COMPILED": compiled, "ROCKETLAKE_PURE": "0"},
        capture_output=True,
        text=True,
        timeout=100,
    )


def spoil(copy: Path, line: str) -> None:
    types = copy.joinpath("src", *MODULE.split(".")).with_suffix(".pxd")
    types.write_text(f"{line}\n{types.read_text()}")


def built(copy: Path) -> list[Path]:
    return [*copy.joinpath("src").rglob("*.so")]


def test_what_the_compiler_refuses_ends_the_build_and_is_named(copy: Path) -> None:
    spoil(copy, 'cdef extern from "no_such_header.h":\n    pass')
    done = build(copy, "1")
    assert done.returncode != 0
    assert f"{MODULE} does not compile" in done.stderr
    assert "no_such_header.h" in done.stderr, "the compiler's own words"
    assert built(copy) == []


def test_what_cython_refuses_ends_the_build_and_is_named(copy: Path) -> None:
    spoil(copy, "cdef no_such_type broken")
    done = build(copy, "1")
    assert done.returncode != 0
    assert "java_compat.pxd" in done.stderr
    assert "no_such_type" in done.stderr


def test_pip_goes_on_with_the_python_form_and_says_so(copy: Path) -> None:
    spoil(copy, 'cdef extern from "no_such_header.h":\n    pass')
    done = build(copy, "0")
    assert done.returncode == 0, done.stderr
    assert f"{MODULE} does not compile" in done.stderr
    assert "its Python form runs instead" in done.stderr
    assert built(copy) == []
