"""Random histories of a streaming query: whatever happens, each message that was wanted comes once.

ROCKETLAKE_SPARK_SEEDS=5000 runs so many more than the fixed ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.model.message_queue import MessageQueue

Drivers = Callable[..., Any]
SEEDS = 120 + int(os.environ.get("ROCKETLAKE_SPARK_SEEDS", "0"))
BEGIN_MS = 1_700_000_000_000


class History:
    """A cluster that grows, and a query on it that is killed and started again; all of it from one seed."""

    def __init__(self, seed: int, cluster: Any, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.cluster = cluster
        self.folder = folder
        self.now_ms = BEGIN_MS
        for _ in range(self.rng.randrange(1, 4)):
            self.add_queue("T", 20)
        self.given: dict[str, Any] = {}
        self.first: dict[MessageQueue, int] = {}
        self._choose_topics()
        self._choose_start()
        self._choose_limits()

    def add_queue(self, topic: str, most: int) -> None:
        self.append(self.cluster.add_queue(len(self.cluster.logs), topic=topic), most)

    def append(self, queue: MessageQueue, most: int) -> None:
        for _ in range(self.rng.randrange(most)):
            self.now_ms += self.rng.randrange(3)
            self.cluster.append(queue, b"x" * self.rng.randrange(200), store_ms=self.now_ms)

    def _choose_topics(self) -> None:
        way = self.rng.choice(["subscribe", "subscribePattern", "assign"])
        if way == "subscribePattern":
            self.given[way] = "T.*"
        if way == "assign":
            self.assigned = self.rng.sample(
                sorted(self.cluster.logs), self.rng.randrange(1, len(self.cluster.logs) + 1)
            )
            numbers = ", ".join(str(queue.queue_id) for queue in self.assigned)
            self.given[way] = f'{{"T": {{"broker-a": [{numbers}]}}}}'
        self.way = way

    def _choose_start(self) -> None:
        way = self.rng.choice(["earliest", "latest", "group", "time"])
        logs = self.cluster.logs
        if way == "time":
            time_ms = self.rng.randrange(BEGIN_MS, self.now_ms + 2)
            self.given["startingTimestamp"] = time_ms
            for queue in logs:
                times = self.cluster.times[queue]
                self.first[queue] = sum(each < time_ms for each in times)
            self.now_ms = max(self.now_ms, time_ms)
        else:
            self.given["startingOffsets"] = way
        if way == "latest":
            self.first = {queue: len(log) for queue, log in logs.items()}
        if way == "group":
            self.given["startingGroup"] = "live"
            self.first = {queue: self.rng.randrange(len(log) + 1) for queue, log in logs.items()}
            self.cluster.kept |= {("live", queue): offset for queue, offset in self.first.items()}
        if way in ("latest", "group") or self.rng.random() < 0.5:
            self.given |= self.rng.choice([{"consumerGroup": "G"}, {"offsetStore": str(self.folder)}])

    def _choose_limits(self) -> None:
        rng = self.rng
        if rng.random() < 0.5:
            self.given["maxOffsetsPerTrigger"] = rng.randrange(5, 30)
        if rng.random() < 0.4:
            self.given["maxBytesPerTrigger"] = rng.randrange(200, 6000)
        if rng.random() < 0.2:
            self.given["minOffsetsPerTrigger"] = rng.randrange(1, 6)
        self.given |= rng.choice(
            [{}, {"minPartitions": 7}, {"maxRecordsPerPartition": 5}, {"maxBytesPerPartition": 999}]
        )

    def is_wanted(self, queue: MessageQueue) -> bool:
        if self.way == "assign":
            return queue in self.assigned
        return queue.topic == "T" if self.way == "subscribe" else queue.topic.startswith("T")

    @property
    def expected(self) -> list[tuple[str, int, int]]:
        return sorted(
            (queue.broker_name, queue.queue_id, offset)
            for queue, log in self.cluster.logs.items()
            if self.is_wanted(queue)
            for offset in range(self.first.get(queue, 0), len(log))
        )

    def happen(self) -> None:
        """Some time passes."""
        rng, cluster = self.rng, self.cluster
        cluster.seconds += rng.choice([0.0, 1.0, 20.0])
        for queue in list(cluster.logs):
            self.append(queue, 12)
        if rng.random() < 0.2:
            self.add_queue(rng.choice(["T", "T2", "%RETRY%T"]), 8)
        cluster.hidden = {queue for queue in cluster.logs if queue.queue_id and rng.random() < 0.15}
        cluster.failures = [LinkError("lost")] * rng.randrange(2)
        cluster.seek_error = rng.choice([0, 0, -1, 1])
        cluster.pull_max = rng.choice([1, 3, 32])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_history_loses_or_repeats_a_message(
    cluster: Any, driver: Drivers, kill_points: tuple[str, ...], tmp_path: Path, seed: int
) -> None:
    history = History(seed, cluster, tmp_path)
    rng, query = history.rng, driver(**history.given)
    query.start(kill_at="after initial offset")
    if history.given.get("startingGroup"):
        cluster.kept |= {("live", queue): len(log) for queue, log in cluster.logs.items()}
    for _ in range(rng.randrange(2, 12)):
        history.happen()
        # A first batch cannot be done, or done again, while a broker is away; the query fails, and is started again.
        with suppress(LinkError, UsageError):
            query.start(
                kill_at=rng.choice(["", *kill_points]), batches=rng.randrange(1, 5), available_now=rng.random() < 0.3
            )
    cluster.hidden, cluster.failures = set(), []
    cluster.seconds += 60
    query.start(available_now=True)
    query.start(available_now=True)
    assert sorted((broker, queue_id, offset) for broker, queue_id, offset, _ in query.rows) == history.expected
