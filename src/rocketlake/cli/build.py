"""The build that runs: its version, compiled or pure Python.

Owns        the line that `--version` and the servers print about the build.
Must not know   which modules have compiled twins.
"""

from __future__ import annotations

import os
import platform

from rocketlake.base.logs import get_logger

__all__ = ["build_line", "is_compiled", "log_build", "pure_cure"]


def is_compiled() -> bool:
    """True when the compiled modules run."""
    from rocketlake.base.pure_import import has_kernel

    return has_kernel("rocketlake.base.checksum")


def build_line() -> str:
    """rocketlake 0.1.0, compiled, Python 3.11.7."""
    from rocketlake import __version__

    form = "compiled" if is_compiled() else "pure Python (slower)"
    return f"rocketlake {__version__}, {form}, Python {platform.python_version()}"


def pure_cure() -> str:
    """The cure when the source runs and not the compiled modules."""
    if os.environ.get("ROCKETLAKE_PURE") == "1":
        return "unset ROCKETLAKE_PURE"
    return "install a C compiler (Debian: apt-get install gcc), then install RocketLake again"


def log_build() -> None:
    """Log the build at the start of a server, with a warning for the slow one."""
    log = get_logger(__name__)
    log.info("%s, process %d", build_line(), os.getpid())
    if not is_compiled():
        log.warning("no compiled modules: each request takes several times the CPU. Cure: %s", pure_cure())
