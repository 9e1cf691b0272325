"""What a command prints: a table and sentences for people; JSON, JSON lines or YAML for programs.

Owns        the option --output, the look of tables, of times and of numbers; the forms of the same rows for programs.
Must not know   single commands.

A program reads piped output: numbers have no thousands separators there. What is not known, or does not apply, is None
in a row: "-" in a table, null in the other forms.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketlake.admin.words import noun
from rocketlake.model.moment import moment_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "OUTPUT_DEFAULT",
    "Moment",
    "Names",
    "Output",
    "OutputForm",
    "amount",
    "begin",
    "chosen_form",
    "end",
    "objects",
    "show",
    "show_attributes",
    "show_json",
    "show_line",
    "show_table",
    "table_of",
    "tell",
    "tell_rows",
]


class OutputForm(enum.Enum):
    """The form of a command's output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"


@dataclass(slots=True)
class _Report:
    """What the command that runs has to tell; `said` and `fields` are printed as one object at its end."""

    form: OutputForm = OutputForm.TABLE
    said: list[str] = field(default_factory=list)
    fields: dict[str, object] = field(default_factory=dict)


_report = _Report()


def begin() -> None:
    """A command starts: nothing is said yet, the form is a table until its options are read."""
    _report.form, _report.said, _report.fields = OutputForm.TABLE, [], {}


def chosen_form() -> OutputForm:
    """The form that --output asks for."""
    return _report.form


def _choose(form: OutputForm) -> OutputForm:
    _report.form = form
    return form


Output = Annotated[
    OutputForm,
    typer.Option("--output", "-o", help="table; json, jsonl (a line for each) or yaml for programs.", callback=_choose),
]
OUTPUT_DEFAULT = OutputForm.TABLE


def tell(text: str, **fields: object) -> None:
    """A sentence for people. For programs the fields, and the sentences as `said`, in one object at the end."""
    if _report.form is OutputForm.TABLE:
        typer.echo(text)
    else:
        _report.said.append(text)
        _report.fields |= fields


def tell_rows(name: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table among sentences; for programs the field `name` of their object."""
    if _report.form is OutputForm.TABLE:
        show_table(headings, rows)
    else:
        _report.fields[name] = objects(headings, rows)


def show_attributes(own: Mapping[str, Mapping[str, str]]) -> None:
    """The attributes of a topic or a group, one line for each broker that has any."""
    for broker, attributes in sorted(own.items()):
        if attributes:
            text = ", ".join(f"{name}={value}" for name, value in sorted(attributes.items()))
            typer.echo(f"attributes on {broker}: {text}")


def end() -> None:
    """The command has ended, well or not: a program gets what it said."""
    if _report.said or _report.fields:
        show_json({**_report.fields, "said": _report.said})
    _report.said, _report.fields = [], {}


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
    """Rows as a table, or as objects. Without rows, a table is not printed and `none` goes to standard error."""
    if output is not OutputForm.TABLE:
        show_json(objects(headings, rows))
    elif rows or not none:
        show_table(headings, rows)
    else:
        typer.echo(none, err=True)


def objects(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """One object per row; the keys are the headings, `in/s` as in_per_second, `disk %` as disk_percent."""
    keys = [heading.replace("/s", "_per_second").replace("%", "percent").replace(" ", "_") for heading in headings]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def show_json(value: object) -> None:
    """A value in the form that was asked for, JSON unless it is another: indented for a terminal, else on one line."""
    if _report.form is OutputForm.YAML:
        from rocketlake.cli.yaml_text import yaml_text

        typer.echo(yaml_text(json.loads(_json(value))), nl=False)
    elif _report.form is OutputForm.JSONL:
        for each in value if isinstance(value, list) else [value]:
            typer.echo(_json(each))
    else:
        typer.echo(_json(value, indent=2 if sys.stdout.isatty() else None))


def show_line(value: object) -> None:
    """One of many objects that come one by one: a line of JSON, or a YAML document. It is written at once."""
    if _report.form is OutputForm.YAML:
        typer.echo("---")
        show_json(value)
    else:
        typer.echo(_json(value))


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain, indent=indent)


def _plain(value: object) -> Any:
    return value.to_json() if isinstance(value, Moment) else str(value)


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; numbers stand right. Columns are never cut."""
    from rich.console import Console

    raw = [tuple(row) for row in rows]
    kept = [[_text(cell) for cell in row] for row in raw]
    width = sum(max([len(heading), *(len(row[n]) for row in kept)]) + 2 for n, heading in enumerate(headings))
    console = Console(highlight=False)
    Console(highlight=False, width=max(console.width, width)).print(table_of(headings, raw))


def table_of(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """The table itself, for a view that prints it again and again."""
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
    return table


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return amount(cell) if type(cell) is int else str(cell)
