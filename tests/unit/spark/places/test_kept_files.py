"""First offsets, losses and dead letters in a bucket."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pyarrow.parquet as pq
import pytest

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.places.location import OBJECTS, Location
from rocketlake.spark.places.memory import Faults, MemoryObjects
from rocketlake.spark.progress.losses import lost_messages
from rocketlake.spark.sink.dead_letters import DeadLetter, write_object
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.source.brokers import Bounds
from rocketlake.spark.source.losses import lose
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.start_store import start_store

QUEUE = MessageQueue("T", "broker-a", 3)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    store = MemoryObjects("memory://b", Faults(random.Random(5), puts=0.3, others=0.1))
    monkeypatch.setitem(OBJECTS, "memory", lambda _: store)
    return store


def test_first_offsets_are_kept_until_they_are_not_needed(
    store: MemoryObjects, make_options: Callable[..., Any]
) -> None:
    options = make_options(startingOffsets="latest", offsetStore="memory://b/starts")
    starts = start_store(options, None)  # type: ignore[arg-type]
    assert starts.load([QUEUE]) == {}
    starts.save({QUEUE: 7})
    starts.save({QUEUE: 8})
    assert start_store(options, None).load([QUEUE]) == {QUEUE: 8}  # type: ignore[arg-type]
    starts.forget([QUEUE])
    assert starts.load([QUEUE]) == {}
    assert store.objects == {}


def test_a_loss_is_counted_once(store: MemoryObjects, make_options: Callable[..., Any]) -> None:
    options = make_options(startingOffsets="earliest", failOnDataLoss="false", lossTable="memory://b/losses")
    for _ in range(2):  # a batch is read again
        lose(options, QueueRange(QUEUE, 0, 10), 0, 7, Bounds(7, 10), "expired")
    lose(options, QueueRange(QUEUE, 0, 10), 2, None, Bounds(7, 10), "made anew")
    assert [json.loads(data)["messages"] for data, _ in store.objects.values()] == [7, None]
    assert lost_messages(Location(PurePosixPath("/losses"), "memory", "b")) == 7


def test_a_repeated_task_replaces_its_dead_letters(store: MemoryObjects) -> None:
    identity = TaskIdentity("q", 7, 1)
    for number in range(2):
        letters = [DeadLetter(Fault.NO_BODY, number, "T", b"")]
        write_object(Location(PurePosixPath("/dead"), "memory", "b"), letters, identity)
    ((key, (data, _)),) = store.objects.items()
    assert key == "dead/dlq-q-7-1.parquet"
    assert [row["position"] for row in pq.read_table(io.BytesIO(data)).to_pylist()] == ["q/7/1/1"]
