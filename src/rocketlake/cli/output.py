"""The frame of every command: its event loop, its errors, its questions.

Owns        running a command's coroutine, the look of errors and one-line bodies, the question before something is
            taken away, the options --namesrv, --yes and --dry-run.
Must not know   single commands, the look of tables (table.py).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rocketlake.cli.context_files import context_in_use
from rocketlake.cli.table import OutputForm, chosen_form, tell

if TYPE_CHECKING:
    from rocketlake.base.errors import RocketLakeError

__all__ = ["NAMESRV_DEFAULT", "DryRun", "Namesrv", "Yes", "agreed", "fail", "run", "text_line"]

T = TypeVar("T")

Namesrv = Annotated[
    str, typer.Option("--namesrv", "-n", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port.")
]
NAMESRV_DEFAULT = "127.0.0.1:9876"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end, on uvloop where there is one."""
    with closing(work):  # Ctrl-C may come before the coroutine has begun
        if sys.platform == "win32":
            return asyncio.run(work)
        import uvloop

        return uvloop.run(work)


def agreed(what: str, *, yes: bool, dry_run: bool = False, more: str = "", **fields: object) -> bool:
    """Ask whether to do `what`; a no ends the command. False for a dry run, which only says it; `fields`: for programs.

    Not to be called on the event loop, which keeps Ctrl-C to itself.
    """
    if dry_run:
        tell(f"would {what}" + (f" ({more})" if more else ""), **fields)
        tell("dry run: nothing was changed", dry_run=True)
        return False
    if not yes:
        context = context_in_use()
        _confirm(f"{what}?" + (f" {more}" if more else "") + (f" [context {context}]" if context else ""))
    return True


def _confirm(question: str) -> None:
    from rocketlake.cli.exit_codes import ExitCode, NotConfirmedError

    try:
        is_wanted = typer.confirm(question, err=chosen_form() is not OutputForm.TABLE)
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C, Ctrl-D
        typer.echo(err=True)
        what = "nobody can answer: standard input is no terminal, and it is at its end"
        raise NotConfirmedError(what, hint="give --yes, which does not ask") from None
    if not is_wanted:
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def fail(error: RocketLakeError) -> None:
    """Print the error on standard error: what went wrong, where, and the cure; for programs as one line of JSON."""
    if chosen_form() is not OutputForm.TABLE:
        from rocketlake.cli.exit_codes import exit_code_of

        code = exit_code_of(error)
        told = {"kind": code.name.lower(), "what": error.what, "where": error.where or None, "cure": error.hint or None}
        print(json.dumps({"error": told | {"exit": int(code)}}, ensure_ascii=False), file=sys.stderr)
        return
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
