"""The frame of every command: its event loop, its errors, its questions.

Owns        running a command's coroutine, the look of errors, questions and one-line bodies, the option --namesrv.
Must not know   single commands, tables (table.py).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rocketlake.base.errors import RocketLakeError

__all__ = ["NAMESRV_DEFAULT", "Namesrv", "confirm", "fail", "run", "text_line"]

T = TypeVar("T")

Namesrv = Annotated[
    str, typer.Option("--namesrv", "-n", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port.")
]
NAMESRV_DEFAULT = "127.0.0.1:9876"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end, on uvloop where there is one."""
    with closing(work):  # Ctrl-C may come before the coroutine has begun
        if sys.platform == "win32":
            return asyncio.run(work)
        import uvloop

        return uvloop.run(work)


def confirm(question: str) -> None:
    """Ask; every answer but yes ends the command. Not to be called on the event loop, which keeps Ctrl-C to itself."""
    from rocketlake.base.errors import UsageError

    try:
        is_wanted = typer.confirm(question)
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C, Ctrl-D
        typer.echo(err=True)
        what = "nobody can answer: standard input is no terminal, and it is at its end"
        raise UsageError(what, hint="give --yes, which does not ask") from None
    if not is_wanted:
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(1)


def fail(error: RocketLakeError) -> None:
    """Print the error on standard error: what went wrong, where, and the cure."""
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
    """A body on one line: text as it is, other bytes as Python writes them; cut at `limit` characters."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = repr(body)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(body)} bytes)"
