"""Rows for people and rows for programs: a table, or JSON.

Owns        the look of tables, of times and of numbers; the JSON form of the same rows.
Must not know   single commands.

A program reads piped output: numbers have no thousands separators there. What is not known, or does not apply, is None
in a row: "-" in a table, null in JSON.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rocketlake.admin.words import noun
from rocketlake.model.moment import moment_text

__all__ = ["OUTPUT_DEFAULT", "Moment", "Output", "OutputForm", "amount", "objects", "show", "show_json", "show_table"]


class OutputForm(enum.Enum):
    """The form of a command's output."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputForm, typer.Option("--output", "-o", help="table, or json for programs.")]
OUTPUT_DEFAULT = OutputForm.TABLE


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a cell: local time with its zone, ISO 8601 in JSON; "-" and null when there is none.

    Options that take a time take it as it is printed here.
    """

    ms: int

    def __str__(self) -> str:
        return moment_text(self.ms) if self.ms > 0 else "-"

    def to_json(self) -> str | None:
        """2026-11-22T10:00:00.123+01:00."""
        return moment_text(self.ms, "T") if self.ms > 0 else None


class Names(tuple[str | int, ...]):
    """Several names or ids as a cell: with commas in a table, an array in JSON."""

    def __str__(self) -> str:
        return ", ".join(map(str, self)) or "-"


def amount(number: int, what: str = "") -> str:
    """ "1 message", "2,000 messages"; the number alone without `what`."""
    text = f"{number:,}" if sys.stdout.isatty() else str(number)
    return f"{text} {noun(number, what)}" if what else text


def show(headings: Sequence[str], rows: Sequence[Sequence[object]], output: OutputForm, *, none: str = "") -> None:
    """Rows as a table or as a JSON array. Without rows, a table is not printed and `none` goes to standard error."""
    if output is OutputForm.JSON:
        show_json(objects(headings, rows))
    elif rows or not none:
        show_table(headings, rows)
    else:
        typer.echo(none, err=True)


def objects(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """One object per row; the keys are the headings, with _ for blanks."""
    keys = [heading.replace(" ", "_") for heading in headings]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def show_json(value: object) -> None:
    """JSON on standard output: indented for a terminal, else on one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=_plain, indent=2 if sys.stdout.isatty() else None))


def _plain(value: object) -> Any:
    return value.to_json() if isinstance(value, Moment) else str(value)


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; numbers stand right. Columns are never cut."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    raw = [tuple(row) for row in rows]
    kept = [[_text(cell) for cell in row] for row in raw]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, heading in enumerate(headings):
        cells = [row[number] for row in raw]
        right = int in map(type, cells) and all(type(cell) is int or cell is None or cell == "-" for cell in cells)
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in kept:
        table.add_row(*map(escape, row))
    width = sum(max([len(heading), *(len(row[n]) for row in kept)]) + 2 for n, heading in enumerate(headings))
    console = Console(highlight=False)
    Console(highlight=False, width=max(console.width, width)).print(table)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return amount(cell) if type(cell) is int else str(cell)
