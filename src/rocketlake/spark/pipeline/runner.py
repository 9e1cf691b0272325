"""A running pipeline: all its queries, until they end, fail or are stopped.

Owns        starting and stopping the queries together, the error when one fails.
Must not know   the terminal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rocketlake.base.errors import RocketLakeError
from rocketlake.spark.pipeline.engine import Flow, build, start, write_batch
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.model import Pipeline
from rocketlake.spark.pipeline.spark_errors import cause
from rocketlake.spark.places.location import Location, is_stored, location_of

__all__ = ["PipelineFailed", "PipelineRun", "loss_tables"]

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.2


class PipelineFailed(RocketLakeError):
    """A query ended with an error; its checkpoint stands, and `run` goes on from there."""


class PipelineRun:
    """`run = PipelineRun(spark, pipeline); run.start(once=True); run.wait()`; stop() may be called at any time."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, environment: Environment | None = None) -> None:
        self.pipeline = pipeline
        self.environment = environment or Environment()
        self.flows: list[Flow] = build(spark, pipeline, self.environment)
        self.queries: dict[str, StreamingQuery] = {}

    def start(self, *, once: bool = False) -> None:
        """Start every query; a batch source's rows are written before this returns."""
        if not self.pipeline.source.is_stream:
            for flow in self.flows:
                write_batch(flow, self.pipeline, self.environment)
            return
        try:
            for flow in self.flows:
                self.queries[flow.name] = start(flow, self.pipeline, self.environment, once=once)
        except BaseException:
            self.stop()
            raise

    def wait(
        self,
        look: Callable[[], None] = lambda: None,
        *,
        is_told_to_stop: Callable[[], bool] = lambda: False,
        every_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """Wait until all queries have ended, or `stop` is called; calls `look` now and then.

        PipelineFailed stops the others first.
        """
        try:
            while self.is_active() and not is_told_to_stop():
                look()
                self.check()
                time.sleep(every_seconds)
            self.check()
            look()
        except PipelineFailed:
            self.stop()
            raise

    def report_to(self, add: Callable[[dict[str, Any]], None]) -> None:
        """Give every progress report that is still known to `add`."""
        for query in self.queries.values():
            for progress in query.recentProgress:
                add(json.loads(progress.json))

    def is_active(self) -> bool:
        """True while a query runs."""
        return any(query.isActive for query in self.queries.values())

    def stop(self, *, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Let each query end its batch, then stop it; the next run does the rest."""
        until = time.monotonic() + grace_seconds
        at_work = {name: _batches_done(query) for name, query in self.queries.items()}
        for name, query in self.queries.items():
            while query.isActive and query.status["isTriggerActive"] and _batches_done(query) == at_work[name]:
                if time.monotonic() > until:
                    break
                time.sleep(0.02)
            query.stop()

    def check(self) -> None:
        """PipelineFailed if a query ended with an error."""
        for name, query in self.queries.items():
            problem = None if query.isActive else query.exception()
            if problem is not None:
                what, cure = cause(problem)
                hide = self.environment.hide
                where = f"pipeline {self.pipeline.name}, query {name}"
                raise PipelineFailed(hide(what), where=where, hint=hide(cure)) from None


def _batches_done(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def loss_tables(pipeline: Pipeline, environment: Environment) -> dict[str, str | Location]:
    """Query name -> folder in which its source notes losses, if there is one; for LagListener."""
    source = pipeline.source
    text = environment.fill(source.options.text("lossTable"), source.options.place("lossTable", source.where))
    options = source.options.filled(environment) if is_stored(text) else {}
    table = location_of(text, options, what="lossTable") if is_stored(text) else text
    return {f"{pipeline.name}.{name}": table for name in pipeline.sinks} if table else {}
