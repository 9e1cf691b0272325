"""What commands print: tables, lines, errors.

Owns        the look of the command line, exit codes, the event loop of a command.
Must not know   single commands.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rocketlake.base.errors import RocketLakeError

__all__ = ["NAMESRV_DEFAULT", "Namesrv", "fail", "run", "show_table", "show_time", "text_line"]

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


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """A table; numbers stand right. Columns are never cut: output may be read by a program."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    kept = [[f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
    table = Table(title=title or None, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for number, heading in enumerate(headings):
        right = bool(kept) and all(row[number].replace(",", "").lstrip("-").isdigit() for row in kept)
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in kept:
        table.add_row(*map(escape, row))
    width = sum(max([len(heading), *(len(row[n]) for row in kept)]) + 2 for n, heading in enumerate(headings))
    console = Console(highlight=False)
    Console(highlight=False, width=max(console.width, width)).print(table)


def show_time(epoch_ms: int) -> str:
    """A store or born time for a reader, in local time; "-" when there is none."""
    if epoch_ms <= 0:
        return "-"
    moment = datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{epoch_ms % 1000:03d}"


def text_line(body: bytes, limit: int = 2000) -> str:
    """A body on one line: text as it is, anything else as Python writes bytes; cut at `limit` characters."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = repr(body)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(body)} bytes)"
