"""One topic's table, kept by turns: each turn is a streaming query that reads what is there, commits it and ends.

Owns        the state of one table: its query, its failures and pauses; what it has reached (reached.py).
Must not know   other topics, how many turns run at once (supervisor.py).

A query that ran all the time would hold a Python process of its own on the driver. Turns hold one while they run, so a
hundred topics need no more of them than run at once. The checkpoint stays from turn to turn, and with it what the lake
promises: each row once.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from rocketlake.base.errors import RocketLakeError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.pipeline.runner import PipelineRun
from rocketlake.spark.pipeline.serving.lags import TableLags
from rocketlake.spark.pipeline.serving.plan import ServePlan, pipeline_of, refuse_lost_checkpoint
from rocketlake.spark.pipeline.serving.reached import Offsets, Reached
from rocketlake.spark.pipeline.serving.wanted import WantedTable
from rocketlake.spark.pipeline.spark_errors import cause
from rocketlake.spark.progress.lag import read_report

__all__ = ["TableTurns", "reason"]

_PAUSE_SECONDS = 5.0
_PAUSE_SECONDS_MAX = 300.0


class TableTurns:
    """The turns of one table. Times are monotonic seconds."""

    def __init__(self, wanted: WantedTable) -> None:
        self.wanted = wanted
        self.failures = 0
        """Turns that failed since the last one that did not."""
        self.turns = 0
        """Turns that did not fail."""
        self.rows = 0
        """Rows of these turns."""
        self.waits_since = 0.0
        self._not_before = 0.0
        self._is_asked = False
        self._reached = Reached()
        self._run: PipelineRun | None = None
        self._runs = False

    @property
    def topic(self) -> str:
        """The topic, which names query and table."""
        return self.wanted.topic

    def ask(self, newest: Offsets | None, lags: TableLags) -> None:
        """A look has seen that the topic has come so far; None: its brokers did not say. A turn may follow."""
        self._reached.look(newest)
        self._is_asked = True
        if not self._runs:
            self._tell(lags)

    def is_due(self, now: float) -> bool:
        """True if there is something to read, or if nobody knows."""
        return not self._runs and self._is_asked and now >= self._not_before and self._reached.is_behind()

    def begin(self, spark: SparkSession, plan: ServePlan) -> None:
        """Start a turn. RocketLakeError, or an error of Spark's, if it cannot start."""
        self._is_asked = False
        self._reached.begin()
        if self._run is None:
            refuse_lost_checkpoint(plan, self.wanted)
            self._run = PipelineRun(spark, pipeline_of(plan, self.wanted))
        self._run.start(once=True)
        self._runs = True

    def has_ended(self) -> bool:
        """True once after the end of a turn; then `finish` says how it went."""
        return self._runs and self._run is not None and not self._run.is_active()

    @property
    def runs(self) -> bool:
        """True during a turn."""
        return self._runs

    def finish(self, now: float, lags: TableLags) -> None:
        """Take the results of a turn that has ended. RocketLakeError if it failed."""
        assert self._run is not None
        self._runs = False
        self._run.check()
        self._run.report_to(lags.add)  # Spark's own reports may come later
        self.failures, self.waits_since, self.turns = 0, now, self.turns + 1
        read: dict[MessageQueue, int] = {}
        for query in self._run.queries.values():
            for progress in query.recentProgress:
                report = read_report(json.loads(progress.json))
                self.rows += report.rows
                for (_, topic, *place), end in report.end.items():
                    if topic == self.topic and len(place) == 2:
                        read[MessageQueue(topic, place[0], int(place[1]))] = end
        self._reached.finish(read)
        self._tell(lags)

    def _tell(self, lags: TableLags) -> None:
        if self._reached.newest is not None and self._reached.ends is not None:
            lags.seen(self.topic, self._reached.ends, self._reached.newest)

    def fail(self, error: Exception, now: float) -> float:
        """A turn could not start, or ended with an error: plan anew, after this pause."""
        self._runs, self._run = False, None
        pause = min(_PAUSE_SECONDS * 2.0 ** min(self.failures, 10), _PAUSE_SECONDS_MAX)
        self.failures, self.waits_since, self._not_before = self.failures + 1, now, now + pause
        return pause

    def stop(self) -> None:
        """End a turn that runs behind its micro-batch; the next start goes on from the checkpoint."""
        if self._run is not None and self._runs:
            self._run.stop()
        self._runs = False


def reason(error: BaseException) -> str:
    """Why a turn, or the upkeep of a table, failed; in one line."""
    if isinstance(error, RocketLakeError):
        return str(error)
    what, cure = cause(error)
    return f"{what}. Cure: {cure}" if cure else what
