"""`rocketlake lake create | info | files | history | compact | expire | clean`.

Owns        options and output of these commands.
Must not know   how a table is changed (spark/lake/maintenance.py).
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.base.errors import UsageError
from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import DryRun, Yes, agreed
from rocketlake.cli.table import (
    OUTPUT_DEFAULT,
    Moment,
    Output,
    OutputForm,
    amount,
    chosen_form,
    objects,
    show_json,
    show_table,
    tell,
)
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.spark.places.location import Location

__all__ = ["app"]

app = CommandTree(help="Create, inspect, compact and clean lake tables; a running stream is not disturbed.")

Table = Annotated[str, typer.Argument(help="Folder of the table, or s3://bucket/folder.", show_default=False)]
Store = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of a store or catalog, s3.endpoint=http://127.0.0.1:9000; may be repeated."),
]

_AGE = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _age(text: str) -> int:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"'{text}'; a number and s, m, h or d: 90s, 12h, 7d")
    return int(match[1]) * _SECONDS[match[2]]


def _location(table: str, store: list[str] | None) -> Location:
    from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS, catalog_settings
    from rocketlake.spark.option_values import local_path
    from rocketlake.spark.places.location import Location, is_stored, location_of
    from rocketlake.spark.places.settings import STORE_OPTIONS

    options: dict[str, str] = {}
    for text in store or ():
        name, equals, value = text.partition("=")
        if not equals or name not in STORE_OPTIONS | CATALOG_OPTIONS:
            known = ", ".join(STORE_OPTIONS | CATALOG_OPTIONS)
            raise UsageError(f"--option '{name}' is not known", hint=f"write NAME=VALUE; names: {known}")
        options[name] = value
    if is_stored(table):
        location = location_of(table, options, what="the table")
    else:
        location = Location(Path(local_path(table)).expanduser().absolute())
    return replace(location, settings=location.settings + catalog_settings(options))


def _say(line: str) -> None:
    tell("  " + line)


@app.command()
def create(
    table: Table,
    table_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="parquet, delta or iceberg; default parquet, on an object store delta.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str, typer.Option(help="Fields of JSON bodies as columns, `id bigint, price double`; none: the raw body.")
    ] = "",
    partition_by: Annotated[str, typer.Option(help="Partition columns, comma separated, or none.")] = "storeDay",
    store: Store = None,
) -> None:
    """Describe a table before a stream writes to it; the stream must fit the description."""
    from rocketlake.spark.lake.bodies.make_parser import make_parser
    from rocketlake.spark.lake.description import Descriptions
    from rocketlake.spark.lake.options import parse_options
    from rocketlake.spark.lake.table_sink import describe
    from rocketlake.spark.schema import full_schema

    path = _location(table, store)
    given = {"path": str(path), "partitionBy": partition_by, **dict(path.settings)}
    if table_format:
        given["tableFormat"] = table_format
    if columns:
        given |= {"bodyFormat": "json", "bodySchema": columns}
    options = parse_options(given, streaming=True)
    known = Descriptions(path).latest()
    made = describe(options, path, full_schema(), make_parser(options), dead_letters=False)
    what = "made" if known is None else "there already" if made == known else "extended"
    tell(f"{made.table_format} table {path}: {what}, {len(made.schema.fields)} columns")


@app.command()
def info(
    table: Table,
    ddl: Annotated[bool, typer.Option("--ddl", help="Only the columns, for spark.read.schema(...).")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Only the next offsets, as JSON for startingOffsets.")
    ] = False,
    output: Output = OUTPUT_DEFAULT,
    store: Store = None,
) -> None:
    """Show a table: columns, files, rows, the offset up to which each queue is in it."""
    import json
    import statistics

    from rocketlake.spark.lake.maintenance import open_described
    from rocketlake.spark.lake.offset_ranges import OffsetRanges, merge

    path = _location(table, store)
    found, description = open_described(path)
    if ddl:
        typer.echo(", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in description.schema.fields))
        return
    ends: OffsetRanges = {}
    for commit in found.history(1 << 30):
        merge(ends, commit.offsets)
    if offsets:
        if not ends:
            raise UsageError(
                f"no offsets are known of the table at {path}",
                hint="let the query select topic, brokerName, queueId and queueOffset, too; a table without rows has"
                " none: start at startingOffsets = earliest",
            )
        plain = {t: {b: {q: end for q, (_, end) in qs.items()} for b, qs in bs.items()} for t, bs in ends.items()}
        typer.echo(json.dumps(plain, sort_keys=True))
        return
    files = found.files()
    found_rows, found_bytes = sum(file.rows for file in files), sum(file.bytes for file in files)
    partitions = len({file.partition for file in files})
    median = statistics.median(file.bytes for file in files) if files else 0
    columns = [field.name for field in description.schema.fields]
    headings = ("topic", "broker", "queue", "next offset")
    queues = sorted((t, b, int(q), end) for t, bs in ends.items() for b, qs in bs.items() for q, (_, end) in qs.items())
    if output is not OutputForm.TABLE:
        whole: dict[str, object] = {"path": str(path), "format": description.table_format, "kind": description.kind}
        whole |= {"partition_columns": list(description.partition_by), "columns": columns, "rows": found_rows}
        whole |= {"files": len(files), "partitions": partitions, "bytes": found_bytes, "median_file_bytes": int(median)}
        whole |= {"merge": description.merge} if description.merge else {}
        show_json(whole | {"queues": objects(headings, queues)})
        return
    tell(f"{description.table_format} table of {description.kind}, {path}")
    tell(f"  partition columns  {', '.join(description.partition_by) or 'none'}")
    if description.merge:
        tell(f"  newest row of each {description.merge} buckets")
    tell(f"  columns            {len(columns)} (--ddl shows them)")
    tell(f"  rows               {amount(found_rows)}")
    tell(
        f"  files              {amount(len(files))} in {amount(partitions, 'partition')}, "
        f"{found_bytes / 1e6:.1f} MB, median {median / 1e6:.2f} MB"
    )
    if queues:
        show_table(headings, queues)


@app.command()
def files(table: Table, store: Store = None) -> None:
    """Print path or url of each data file, for programs that read Parquet files by a list."""
    from rocketlake.spark.lake.maintenance import open_described

    found, _ = open_described(_location(table, store))
    urls: list[str] = []
    for file in found.files():
        urls.append(found.place.url(found.read_path(file)))
    if chosen_form() is OutputForm.TABLE:
        typer.echo("\n".join(urls))
    else:
        show_json(urls)


@app.command()
def history(
    table: Table,
    limit: Annotated[int, typer.Option(min=1, help="Newest commits only.")] = 20,
    output: Output = OUTPUT_DEFAULT,
    store: Store = None,
) -> None:
    """Show the commits of a table, newest first.

    bad: rows that the table refused; rows that a pipeline's onError took out before are in its own dead letters.
    """
    from rocketlake.spark.lake.maintenance import open_described

    found, _ = open_described(_location(table, store))
    commits = found.history(limit)
    show_rows(
        ("version", "time", "operation", "rows", "bad", "files", "batch", "query"),
        [
            (
                c.version,
                Moment(c.ms),
                c.operation,
                c.rows,
                c.bad_rows,
                c.files,
                c.batch if c.query else None,
                c.query or None,
            )
            for c in commits
        ],
        output,
    )


@app.command()
def compact(
    table: Table,
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, max=100_000, help="Wanted size of a file.")] = 128,
    dry_run: DryRun = False,
    store: Store = None,
) -> None:
    """Put small files together, partition by partition; a running stream goes on."""
    from rocketlake.spark.lake.maintenance import compact as compact_table

    done = compact_table(_location(table, store), target_mb << 20, dry_run=dry_run, progress=_say)
    tell(
        f"{'would be done' if dry_run else 'done'}: {amount(done.rewrites, 'rewrite')}, "
        f"{amount(done.files_before, 'file')} before, {amount(done.files_after)} after, "
        f"median {done.median_bytes / 1e6:.2f} MB"
        + (f"; {done.lost_races} left alone: another writer was there first" if done.lost_races else "")
    )


@app.command()
def expire(
    table: Table,
    rows: Annotated[
        int | None, typer.Option("--rows-older-than-days", min=1, help="Drop partitions of storeDay older than this.")
    ] = None,
    keep_history: Annotated[str, typer.Option(help="Commits to remember: 12h, 7d.")] = "7d",
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = None,
) -> None:
    """Drop old rows by the day, then forget old commits and the files that only these need."""
    import datetime

    from rocketlake.spark.lake.maintenance import drop_days_before, open_described

    path, age = _location(table, store), _age(keep_history)
    would = "would be " if dry_run else ""
    old = f"rows of {path} older than {amount(rows, 'day')}, " if rows is not None else ""
    if not dry_run:
        agreed(f"drop {old}commits of {path} older than {keep_history} and files that only they need", yes=yes)
    if rows is not None:
        today = datetime.datetime.now(datetime.UTC).date()
        gone = drop_days_before(path, today - datetime.timedelta(days=rows), dry_run=dry_run, progress=_say)
        tell(f"{amount(gone, 'row')} {would}dropped")
    found, _ = open_described(path)
    count = found.expire(int((time.time() - age) * 1000), dry_run=dry_run, progress=_say)
    tell(f"{amount(count)} old files or log entries {would}deleted")


@app.command()
def clean(
    table: Table,
    grace: Annotated[str, typer.Option(help="Younger files are left alone; longer than any batch: 1h, 1d.")] = "1d",
    abandoned: Annotated[
        bool, typer.Option("--abandoned", help="Also files of undecided batches; only while no driver runs.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = None,
) -> None:
    """Delete files left behind by failed tasks and lost races; finish moves that a killed writer began."""
    from rocketlake.spark.lake.maintenance import clean as clean_table

    path = _location(table, store)
    if not dry_run:
        agreed(f"delete files left behind under {path} that are older than {grace}", yes=yes)
    count = clean_table(
        path,
        grace_seconds=_age(grace),
        abandoned=abandoned,
        dry_run=dry_run,
        now=time.time(),
        progress=_say,
    )
    tell(f"{amount(count, 'file')} {'would be ' if dry_run else ''}deleted")
