"""`rocketlake pipeline run | check | export`: pipelines in YAML, on Spark.

Owns        options and output of these commands.
Must not know   how a pipeline works (rocketlake.spark.pipeline).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.table import amount, show_table, tell

if TYPE_CHECKING:
    from rocketlake.spark.pipeline.model import Pipeline

__all__ = ["app"]

app = CommandTree(help="Run, check and export pipelines written in YAML.")

File = Annotated[Path, typer.Argument(help="The pipeline, docs/how-to/pipelines.md.", show_default=False)]
Master = Annotated[str, typer.Option("--master", help="Spark master; local[*] is this machine.")]


@app.command()
def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="Read the messages that are there now, then end.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics on 127.0.0.1.")
    ] = None,
    master: Master = "local[*]",
) -> None:
    """Run a pipeline until Ctrl-C, one streaming query per route."""
    from rich.console import Console

    from rocketlake.spark.pipeline.environment import Environment
    from rocketlake.spark.pipeline.runner import PipelineRun, loss_tables
    from rocketlake.spark.pipeline.session import command_session, stopping_signals
    from rocketlake.spark.progress.listener import LagListener
    from rocketlake.spark.progress.terminal import ProgressView

    pipeline = _read(file)
    losses = loss_tables(pipeline, Environment())
    listening = LagListener(metrics_port=metrics_port, loss_tables=losses)
    session = command_session(f"pipeline {pipeline.name}", master=master, settings=pipeline.spark)
    with stopping_signals() as told_to_stop, session as spark, listening as listener:
        spark.streams.addListener(listener)
        work = PipelineRun(spark, pipeline)
        if listener.metrics_address:
            print(f"metrics at {listener.metrics_address}", file=sys.stderr)
        work.start(once=once)
        with ProgressView(Console(highlight=False, soft_wrap=True)) as view:
            work.wait(lambda: view.show(listener.lags()), is_told_to_stop=told_to_stop.is_set)
            if told_to_stop.is_set():
                print("stopping: the micro-batch at work is finished first", file=sys.stderr, flush=True)
                work.stop()
            work.report_to(listener.add)  # Spark's own reports may come after the queries have ended
            view.show(listener.lags())
        spark.streams.removeListener(listener)
        if not pipeline.source.is_stream:
            tell(f"{', '.join(flow.name for flow in work.flows)}: written")


@app.command()
def check(file: File, master: Master = "local[2]") -> None:
    """Check a pipeline without running it: the file, the cluster, the plans, and ten sample rows."""
    from rocketlake.spark.pipeline.check import check_cluster, check_plans, read_samples
    from rocketlake.spark.pipeline.environment import Environment
    from rocketlake.spark.pipeline.session import command_session

    pipeline = _read(file)
    environment = Environment()
    tell(f"{file.name}: {amount(len(pipeline.sinks), 'query')}")
    findings, topics = check_cluster(pipeline, environment)
    _show(findings)
    with command_session(f"pipeline {pipeline.name}", master=master, settings=pipeline.spark) as spark:
        _show(check_plans(spark, pipeline, environment))
        if pipeline.source.format == "rocketmq" and not topics:
            tell("no sample: there is no topic to read")
            return
        for sample in read_samples(spark, pipeline, environment, topics):
            tell(f"\n{sample.route}: {amount(len(sample.rows), 'sample row')} of {sample.schema}")
            show_table(sample.columns, sample.rows)


@app.command()
def export(
    file: File,
    sdp: Annotated[Path, typer.Option("--sdp", help="Folder for a Spark Declarative Pipelines project; new or empty.")],
) -> None:
    """Write a pipeline as a project for `spark-pipelines run`."""
    from rocketlake.spark.pipeline.export import export_project

    for path in export_project(_read(file), sdp):
        tell(f"wrote {path}")
    tell(f"run it: cd {sdp} && spark-pipelines --conf spark.sql.catalogImplementation=hive run")


def _read(file: Path) -> Pipeline:
    from rocketlake.spark.pipeline.read import read_pipeline

    warnings.simplefilter("ignore")  # pyspark speaks of pandas versions and closes sockets late
    return read_pipeline(file)


def _show(findings: object) -> None:
    from rocketlake.spark.pipeline.check import Finding

    assert isinstance(findings, list)
    for finding in findings:
        assert isinstance(finding, Finding)
        typer.secho(
            ("ok       " if finding.good else "warning  ") + finding.text, fg=None if finding.good else "yellow"
        )
