"""Many tables in one Spark application: looks at the cluster, turns, failures and pauses, upkeep.

Owns        which tables are served, which turn begins next, what is said.
Must not know   the terminal, how the cluster is asked, how a table is written.

One thread does all of it. Turns run in Spark by themselves, so many at once as the plan says: the topic that has waited
longest is next. Whatever goes wrong with a topic is said, and costs this topic a pause; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event

from pyspark.sql import SparkSession

from rocketlake.base.errors import RocketLakeError
from rocketlake.spark.pipeline.serving.lags import TableLags
from rocketlake.spark.pipeline.serving.looks import Seen
from rocketlake.spark.pipeline.serving.plan import ServePlan, loss_location, table_location
from rocketlake.spark.pipeline.serving.table_turns import TableTurns, reason
from rocketlake.spark.pipeline.serving.upkeep import Upkeep
from rocketlake.spark.progress.losses import lost_messages

__all__ = ["LakeServer", "SparkEnded"]

_STEP_SECONDS = 0.1
_SHOW_SECONDS = 1.0
_ONCE_TRIES = 3
"""On a busy machine Spark gives up a Python process that does not answer within 10 s of its start."""


class SparkEnded(RocketLakeError):
    """The Spark session does not answer any more."""


class LakeServer:
    """`server.run(...)` until told to stop, then `server.close()`."""

    def __init__(
        self,
        spark: SparkSession,
        plan: ServePlan,
        look: Callable[[], Seen],
        *,
        lags: TableLags,
        say: Callable[[str], None],
    ) -> None:
        self.tables: dict[str, TableTurns] = {}
        self._spark = spark
        self._plan = plan
        self._look = look
        self._lags = lags
        self._say = say
        self._upkeep = Upkeep(plan, say)
        self._look_at = 0.0
        self._is_blind = False
        self._is_idle = False
        self._unclear: dict[str, str] = {}

    def run(self, told_to_stop: Event, show: Callable[[], None] = lambda: None, *, once: bool = False) -> None:
        """Serve until told to stop; `once`: until each table has had a turn, or failed three times.

        SparkEnded if the session has died.
        """
        shown_at = 0.0
        while not told_to_stop.is_set():
            now = time.monotonic()
            try:
                self.step(now)
            except Exception:
                self._refuse_dead_session()
                raise
            is_done = once and self._is_done()
            if is_done or now >= shown_at + _SHOW_SECONDS:
                shown_at = now
                show()
            if is_done:
                return
            told_to_stop.wait(_STEP_SECONDS)

    def step(self, now: float) -> None:
        """One round: look if it is time, take results, begin turns."""
        if now >= self._look_at:
            self._look_at = now + self._plan.every_seconds
            self._look_around()
        for table in list(self.tables.values()):
            if table.has_ended():
                self._finish(table, now)
        for table in self.tables.values():
            self._look_after(table, now)
        self._upkeep.report()
        running = sum(table.runs for table in self.tables.values())
        due = sorted((table for table in self.tables.values() if table.is_due(now)), key=lambda each: each.waits_since)
        for table in due[: max(0, self._plan.at_once - running)]:
            self._begin(table, now)

    def failed(self) -> dict[str, int]:
        """Topics whose last turn failed, and how often in a row."""
        return {table.topic: table.failures for table in self.tables.values() if table.failures}

    def close(self) -> None:
        """End all turns behind their micro-batches, and the upkeep behind its table."""
        for table in self.tables.values():
            with suppress(Exception):  # a session that has died: the next start goes on from the checkpoints
                table.stop()
        self._upkeep.close()

    def _is_done(self) -> bool:
        tables = self.tables.values()
        return (
            not self._is_blind
            and all(not table.runs and (table.turns or table.failures >= _ONCE_TRIES) for table in tables)
            and self._upkeep.is_idle()
        )

    def _look_around(self) -> None:
        try:
            seen = self._look()
        except RocketLakeError as error:
            # Nobody knows which topics are wanted: those that are served go on, and may find their brokers.
            if not self._is_blind:
                self._say(f"the cluster does not say which topics are tables: {error}")
            self._is_blind = True
            for table in self.tables.values():
                table.ask(None, self._lags)
            return
        self._is_blind = False
        self._say_unclear(seen)
        if not seen.wanted and not self._is_idle:
            self._say("no topic wants a table: `rocketlake topic alter TOPIC --lake delta`, or --topic TOPIC=delta")
        self._is_idle = not seen.wanted
        for topic, table in list(self.tables.items()):
            if seen.wanted.get(topic) != table.wanted:
                self._drop(table, is_changed=topic in seen.wanted)
        for topic, wanted in seen.wanted.items():
            if topic not in self.tables:
                self.tables[topic] = TableTurns(wanted)
                self._lags.serve(topic)
                self._say(f"topic {topic}: served as a table in {self._plan.to}/{topic}")
            self.tables[topic].ask(seen.next_offsets.get(topic), self._lags)

    def _say_unclear(self, seen: Seen) -> None:
        for topic, why in seen.unclear.items():
            if self._unclear.get(topic) != why:
                self._say(f"topic {topic}: not served: {why}")
        self._unclear = dict(seen.unclear)

    def _drop(self, table: TableTurns, *, is_changed: bool) -> None:
        try:
            table.stop()
        except Exception as error:
            self._refuse_dead_session()
            self._say(f"topic {table.topic}: its query does not stop: {reason(error)}")
        del self.tables[table.topic]
        if not is_changed:
            self._lags.forget(table.topic)
            self._say(f"topic {table.topic}: not served any more; its table stays as it is")

    def _begin(self, table: TableTurns, now: float) -> None:
        try:
            if isinstance(self._spark, SparkSession):  # not over Spark Connect
                # In FAIR mode pools share the cores: a long turn leaves some to the others.
                self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.topic)
            table.begin(self._spark, self._plan)
        except Exception as error:  # of one topic, whatever Spark or a store makes of it
            self._fail(table, error, now)

    def _finish(self, table: TableTurns, now: float) -> None:
        was_failing = table.failures
        try:
            table.finish(now, self._lags)
            losses = lost_messages(loss_location(self._plan, table.wanted))
        except Exception as error:
            self._fail(table, error, now)
            return
        self._lags.serve(table.topic, losses=losses)
        if was_failing:
            self._say(f"topic {table.topic}: goes on after {was_failing} failures")

    def _look_after(self, table: TableTurns, now: float) -> None:
        if table.turns and self._upkeep.is_due(table.topic, now):
            location = table_location(self._plan, table.wanted)
            self._upkeep.take(table.topic, location, table.wanted.keep_days, now)

    def _fail(self, table: TableTurns, error: Exception, now: float) -> None:
        self._refuse_dead_session()
        why = reason(error)
        pause = table.fail(error, now)
        self._lags.serve(table.topic, error=why)
        self._say(f"topic {table.topic}: failed {table.failures} times, next try in {pause:g} s: {why}")

    def _refuse_dead_session(self) -> None:
        try:
            _ = self._spark.version
            self._spark.range(1).schema  # noqa: B018  # asks the session, which a stopped one refuses
        except Exception as error:
            raise SparkEnded(
                f"Spark has ended: {str(error).strip().splitlines()[0][:200]}",
                hint="look at its log, then start `rocketlake lake serve` again: it goes on from its checkpoints",
            ) from None
