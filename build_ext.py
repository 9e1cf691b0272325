"""Compiled modules: which they are, and how they are built.

A twin is an ordinary `.py` with a `.pxd` of the same name beside it that adds C types. The `.py` is the truth: it runs
without a compiler. How to add one, and what the measured ones gain: docs/internals/compiled_twins.md.

A kernel is a `.pyx` that has no Python form: where it is missing, an ordinary path does the same work
(docs/internals/hot_path.md).

ROCKETLAKE_PURE=1       compile nothing
ROCKETLAKE_COMPILED=1   fail if one module does not compile: `make install`, and so CI, sets it.
                        Without it pip warns and installs the Python form of that module.

On a machine without a C compiler the one of the PyPI package `ziglang` is taken, if it is installed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

COMPILED = (
    "rocketlake.base.java.java_compat",
    "rocketlake.client.producer.gathering",
    "rocketlake.client.producer.message_check",
    "rocketlake.codec.property_text",
    "rocketlake.codec.record",
    "rocketlake.codec.record_parts",
    "rocketlake.filter.sql_evaluate",
    "rocketlake.filter.sql_numbers",
    "rocketlake.filter.sql_record",
    "rocketlake.model.message",
    "rocketlake.protocol.command",
    "rocketlake.protocol.frame",
    "rocketlake.protocol.header_binary",
    "rocketlake.store.consume_queue.entry",
    "rocketlake.store.consume_queue.tail",
    "rocketlake.store.dispatch_scan",
    "rocketlake.store.fetch",
    "rocketlake.store.key_index.chains",
    "rocketlake.store.known_records",
    "rocketlake.store.selection",
)

KERNELS = (
    "rocketlake.auth.keyed_sha1",
    "rocketlake.base.checksum",
    "rocketlake.client.producer.batch_body",
    "rocketlake.codec.column_batch",
    "rocketlake.codec.name_set",
    "rocketlake.codec.property_scan",
    "rocketlake.codec.record_columns",
    "rocketlake.codec.record_run",
    "rocketlake.broker.delay.due_run",
    "rocketlake.broker.delay.entry_run",
    "rocketlake.broker.delay.plain_time",
    "rocketlake.broker.hot.plain_end",
    "rocketlake.broker.hot.plain_header",
    "rocketlake.broker.hot.plain_pull",
    "rocketlake.broker.hot.signed_frames",
    "rocketlake.broker.hot.plain_run",
    "rocketlake.broker.hot.plain_send",
    "rocketlake.broker.hot.plain_topics",
    "rocketlake.broker.hot.pops.ack_body",
    "rocketlake.broker.hot.pops.plain_ack",
    "rocketlake.broker.hot.pops.plain_pop",
    "rocketlake.broker.lite.lite_run",
    "rocketlake.broker.pop.revive_record",
    "rocketlake.proxy.convert.plain_answers",
    "rocketlake.proxy.convert.plain_messages",
    "rocketlake.proxy.convert.received",
    "rocketlake.store.log_window",
    "rocketlake.store.plain_fetch",
    "rocketlake.store.raw_run",
    "rocketlake.store.timer.unit_run",
)

SHARED = (
    "rocketlake.base.java.java_hash",
    "rocketlake.codec.record_layout",
    "rocketlake.proxy.v2.wire",
)
"""A `.pxd` without a module: numbers and inline functions that kernels share. Nothing is built of it alone."""

SOURCE = Path("src")
BUILD = "build/cython"

DIRECTIVES = {
    "language_level": 3,
    # Types come from the .pxd alone: with annotations as types the compiled form would refuse what Python accepts.
    "annotation_typing": False,
    "boundscheck": True,
    "nonecheck": True,
    "wraparound": True,
    "embedsignature": True,
}


class Build(build_ext):
    """setup()'s `build_ext`: it names the module that does not compile; the compiler has said above what is wrong."""

    _failed = ""

    def build_extension(self, ext: Any) -> None:
        if self._failed:  # what the compiler said stays the last thing that is shown
            raise CCompilerError(f"{ext.name} is not built, as {self._failed} does not compile")
        try:
            super().build_extension(ext)
        except (CCompilerError, BaseError) as error:
            said = f"{ext.name} does not compile: {error}. The compiler's words stand above"
            if not ext.optional:
                self._failed = ext.name
                raise CCompilerError(said) from error
            runs = "messages go one by one without it" if ext.name in KERNELS else "its Python form runs instead"
            self.warn(f"{said}; {runs}, two to ten times slower")


def extensions() -> list[Any]:
    """The extension modules for setup(); none with ROCKETLAKE_PURE=1."""
    if os.environ.get("ROCKETLAKE_PURE") == "1":
        return []
    from Cython.Build import cythonize
    from setuptools import Extension

    choose_compiler()

    found = [Extension(name, [str(source_of(name))], extra_compile_args=["-O2"]) for name in COMPILED]
    found += [Extension(name, [str(kernel_of(name))], extra_compile_args=["-O3"]) for name in KERNELS]
    # A changed .pxd changes how its classes lie in memory: modules compiled against the old one are compiled again.
    types = [str(path) for path in sorted(SOURCE.rglob("*.pxd"))]
    built: list[Any] = cythonize(
        found,
        include_path=[str(SOURCE)],
        build_dir=BUILD,
        compiler_directives=DIRECTIVES,
        annotate=os.environ.get("ROCKETLAKE_ANNOTATE") == "1",
        quiet=True,
        force=_is_any_older(types),
    )
    for extension in built:  # not before: cythonize makes new objects and forgets this
        extension.depends = [*extension.depends, *types]
        extension.optional = os.environ.get("ROCKETLAKE_COMPILED") != "1"
    return built


def choose_compiler() -> str:
    """Name the C compiler for setuptools; returns its command, "" if this machine has none.

    The compiler that Python was built with comes first, then `cc`, then `ziglang`. A user's CC is left alone.
    """
    own = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(shlex.split(own)[0]):
        return own
    if "CC" in os.environ:
        return ""
    if shutil.which("cc"):
        found = "cc"
    elif find_spec("ziglang"):
        found = f"{shlex.quote(sys.executable)} -m ziglang cc"
    else:
        print(
            "RocketLake found no C compiler: its hot paths run as plain Python, two to ten times slower. Cure: install"
            " gcc (Debian: apt-get install gcc) or pip install ziglang, then install RocketLake again",
            file=sys.stderr,
        )
        return ""
    os.environ["CC"] = found
    os.environ["LDSHARED"] = f"{found} -shared"
    return found


def _is_any_older(types: list[str]) -> bool:
    """Was anything translated before the newest .pxd was written?"""
    newest = max(Path(path).stat().st_mtime for path in types)
    return any(path.stat().st_mtime < newest for path in Path(BUILD).rglob("*.c"))


def source_of(name: str) -> Path:
    """The `.py` of a module in COMPILED, which must have its `.pxd` beside it."""
    path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
    for needed in (path, path.with_suffix(".pxd")):
        if not needed.exists():
            raise FileNotFoundError(f"{name} is in COMPILED (build_ext.py), but {needed} is missing")
    return path


def kernel_of(name: str) -> Path:
    """The `.pyx` of a module in KERNELS; it must have its types for Python, a `.pyi`, beside it."""
    path = SOURCE.joinpath(*name.split(".")).with_suffix(".pyx")
    for needed in (path, path.with_suffix(".pyi")):
        if not needed.exists():
            raise FileNotFoundError(f"{name} is in KERNELS (build_ext.py), but {needed} is missing")
    return path
