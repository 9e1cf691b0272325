"""What every command does with its work and its errors.

Owns        the event loop of a command, the look of errors, bodies on one line, the option --namesrv.
Must not know   single commands, tables (table.py).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rocketlake.base.errors import RocketLakeError

__all__ = ["NAMESRV_DEFAULT", "Namesrv", "fail", "run", "text_line"]

T = TypeVar("T")

Namesrv = Annotated[
    str, typer.Option("--namesrv", "-n", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port.")
]
NAMESRV_DEFAULT = "127.0.0.1:9876"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end, on uvloop where there is one."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def fail(error: RocketLakeError) -> None:
    """Say what went wrong, where, and the cure, on standard error."""
    _error_line("error", error.what, "bold red")
    if error.where:
        _error_line("where", error.where)
    if error.hint:
        _error_line("cure", error.hint, "green")


def _error_line(label: str, text: str, style: str = "bold") -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[{style}]{label}:[/] ", end="")
    print(text, file=sys.stderr)


def text_line(body: bytes, limit: int = 2000) -> str:
    """A body on one line: text as it is, anything else as Python writes bytes; cut at `limit` characters."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = repr(body)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(body)} bytes)"
