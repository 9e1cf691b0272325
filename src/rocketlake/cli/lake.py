"""`rocketlake lake create | info | files | history | compact | expire | clean | serve`.

Owns        options and output of these commands.
Must not know   how a table is changed (spark/lake/maintenance.py), how tables are served (spark/pipeline/serving).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed
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
    from rocketlake.spark.pipeline.serving.plan import ServePlan
    from rocketlake.spark.pipeline.serving.wanted import Listed
    from rocketlake.spark.places.location import Location

__all__ = ["app"]

app = CommandTree(help="Create, inspect, compact, clean and serve lake tables; a running stream is not disturbed.")

Table = Annotated[str, typer.Argument(help="Folder of the table, or s3://bucket/folder.", show_default=False)]
Store = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of a store or catalog, s3.endpoint=http://127.0.0.1:9000; may be repeated."),
]


def _age(option: str, text: str) -> int:
    """Seconds."""
    from rocketlake.model.moment import parse_length

    return parse_length(option, text) // 1000


def _location(table: str, store: list[str] | None) -> Location:
    from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS, catalog_settings
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
        location = Location(_folder(table))
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

    path, age = _location(table, store), _age("--keep-history", keep_history)
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

    path, age = _location(table, store), _age("--grace", grace)
    if not dry_run:
        agreed(f"delete files left behind under {path} that are older than {grace}", yes=yes)
    count = clean_table(
        path,
        grace_seconds=age,
        abandoned=abandoned,
        dry_run=dry_run,
        now=time.time(),
        progress=_say,
    )
    tell(f"{amount(count, 'file')} {'would be ' if dry_run else ''}deleted")


Repeated = list[str] | None


@app.command(serves=True)
def serve(
    to: Annotated[
        str, typer.Option("--to", help="Folder or s3://bucket/folder; a topic's table is the folder TO/TOPIC.")
    ],
    topic: Annotated[
        Repeated, typer.Option("--topic", help="A topic without the attribute, orders=delta; may be repeated.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The same as a YAML file, with options of each table.")
    ] = None,
    option: Annotated[
        Repeated, typer.Option("--option", help="Option of all tables, s3.endpoint=http://127.0.0.1:9000; repeatable.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Folder of Spark's checkpoints; default TO/_checkpoints.", show_default=False)
    ] = None,
    master: Annotated[
        str, typer.Option("--master", help="Spark master, or sc://host:port of a Connect server.")
    ] = "local[*]",
    spark_setting: Annotated[
        Repeated, typer.Option("--spark", help="Setting of Spark, spark.driver.memory=2g; may be repeated.")
    ] = None,
    every: Annotated[str, typer.Option(help="How often brokers are asked for new topics and messages.")] = "10s",
    at_once: Annotated[int, typer.Option(min=1, max=100, help="Tables that are written at one time.")] = 4,
    upkeep_every: Annotated[str, typer.Option(help="How often a table is compacted, expired and cleaned.")] = "1h",
    keep_history: Annotated[str, typer.Option(help="Commits to remember: 12h, 7d.")] = "7d",
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, max=100_000, help="Wanted size of a file.")] = 128,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics on 127.0.0.1.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Write the messages that are there now, then end.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Keep topics as tables until Ctrl-C: those with `topic alter TOPIC --lake FORMAT`, and those given here."""
    from rocketlake.spark.pipeline.serving.alone import only_service
    from rocketlake.spark.pipeline.serving.plan import ServePlan

    listed = _listed(topic, config, option)
    target = _target(to)
    plan = ServePlan(
        namesrv,
        target,
        _checkpoints(target, checkpoint),
        at_once=at_once,
        every_seconds=_age("--every", every),
        upkeep_seconds=_age("--upkeep-every", upkeep_every),
        history_seconds=_age("--keep-history", keep_history),
        file_bytes=target_mb << 20,
    )
    settings = _pairs(spark_setting, "--spark")
    if not master.startswith("sc://"):  # a Connect server has a mode of its own
        settings = {"spark.scheduler.mode": "FAIR"} | settings
    with only_service(plan.checkpoint):
        _serve(plan, listed, settings, (master, metrics_port, once))


def _serve(plan: ServePlan, listed: Listed, settings: dict[str, str], how: tuple[str, int | None, bool]) -> None:
    import sys
    import warnings

    from rich.console import Console

    from rocketlake.spark.pipeline.serving.lags import TableLags
    from rocketlake.spark.pipeline.serving.looks import look
    from rocketlake.spark.pipeline.serving.supervisor import LakeServer
    from rocketlake.spark.pipeline.session import command_session, stopping_signals
    from rocketlake.spark.progress.terminal import ProgressView

    master, metrics_port, once = how
    warnings.simplefilter("ignore")  # pyspark speaks of pandas versions and closes sockets late
    console = Console(highlight=False, soft_wrap=True)
    session = command_session("lake serve", master=master, settings=settings)
    with stopping_signals() as told_to_stop, TableLags(metrics_port=metrics_port) as lags, session as spark:
        spark.streams.addListener(lags)
        if lags.metrics_address:
            print(f"metrics at {lags.metrics_address}", file=sys.stderr, flush=True)
        server = LakeServer(
            spark,
            plan,
            lambda: look(plan.namesrv, listed),
            lags=lags,
            say=lambda line: console.print(line, markup=False),
        )
        try:
            with ProgressView(console) as view:
                server.run(told_to_stop, lambda: view.show(lags.lags()), once=once)
        finally:
            if told_to_stop.is_set():
                print("stopping: the micro-batches at work are finished first", file=sys.stderr, flush=True)
            server.close()
        if once and server.failed():
            hint = "see what was said of them above; run it again, it goes on where each table is"
            raise RocketLakeError(f"not written: {', '.join(sorted(server.failed()))}", hint=hint)


def _listed(topics: Repeated, config: Path | None, options: Repeated) -> Listed:
    from rocketlake.spark.pipeline.serving.wanted import Listed, checked_options, listed_in, listed_words

    common = checked_options(_pairs(options, "--option"))
    of_file = listed_in(config, common) if config else Listed(tuple(common.items()))
    of_words = listed_words(topics or (), dict(of_file.options))
    return Listed(of_file.options, of_file.tables + of_words.tables)


def _pairs(texts: Repeated, named: str) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{named} {text!r} is not NAME=VALUE", hint=f"write {named} NAME=VALUE")
        pairs[name] = value
    return pairs


def _target(text: str) -> str:
    from rocketlake.spark.places.location import is_stored

    return text.rstrip("/") if is_stored(text) else str(_folder(text))


def _folder(text: str) -> Path:
    from rocketlake.spark.option_values import local_path

    return Path(local_path(text, or_store=True)).expanduser().absolute()


def _checkpoints(target: str, given: str | None) -> str:
    from rocketlake.spark.option_values import scheme_of
    from rocketlake.spark.pipeline.serving.plan import CHECKPOINTS

    if given is not None:
        return given.rstrip("/") if scheme_of(given) else str(Path(given).expanduser().absolute())
    if scheme_of(target):
        hint = "give --checkpoint a folder that stays: PySpark keeps its checkpoints on a disk"
        raise UsageError(f"tables go to {target}, and nothing says where checkpoints are kept", hint=hint)
    return f"{target}/{CHECKPOINTS}"
