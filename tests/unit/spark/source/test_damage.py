"""Damaged records between sound ones (tests/poison.py), as a broker that checks nothing hands them out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.schema import arrow_schema, full_schema
from rocketlake.spark.source.brokers import Pulled, bounds_of
from rocketlake.spark.source.losses import DamagedMessage
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_read import read_ranges
from rocketlake.spark.source.record_size import RecordSizes
from rocketlake.spark.source.seek import offsets_of_times
from tests.poison import KINDS, Fate, Kind

Options = Callable[..., Any]
SCHEMA = arrow_schema(full_schema())
BAD = [kind for kind in KINDS if kind.fate in (Fate.DAMAGED, Fate.ROTTEN)]
BEGAN_MS = 1_600_000_000_000


@pytest.fixture
def poisoned(cluster: Any, make_record: Callable[..., bytes]) -> tuple[MessageQueue, list[int]]:
    """All kinds that cannot be read, two sound messages before each and behind the last; the offsets of the sound."""
    queue, good = cluster.add_queue(0), list[int]()
    for number, kind in enumerate(BAD):
        for _ in range(2):
            good.append(len(cluster.logs[queue]))
            cluster.append(queue, b"good", tag="A", store_ms=BEGAN_MS + number)
        values = {"tag": "A", "store_ms": BEGAN_MS + number}
        cluster.append(queue, b"bad", **values)
        offset = len(cluster.logs[queue]) - 1
        record = make_record(queue, offset, kind.body, sys_flag=kind.sys_flag, **values)
        cluster.logs[queue][offset] = rotten(kind, record)
    good.append(len(cluster.logs[queue]))
    cluster.append(queue, b"good", tag="A", store_ms=BEGAN_MS + len(BAD))
    return queue, good


def rotten(kind: Kind, record: bytes) -> bytes:
    found = bytearray(record)
    if kind.rot is not None:
        kind.rot(found)
    return bytes(found)


def read(cluster: Any, queue: MessageQueue, options: Any) -> list[tuple[int, bytes]]:
    ranges = [QueueRange(queue, 0, len(cluster.logs[queue]))]
    return [
        row
        for batch in read_ranges(cluster, ranges, options, SCHEMA)
        for row in zip(*(batch.column(name).to_pylist() for name in ("queueOffset", "body")), strict=True)
    ]


@pytest.mark.parametrize("tags", ["*", "A"])
@pytest.mark.parametrize("pull_max", [1, 7, 1000])
def test_all_sound_messages_are_read_and_each_other_is_counted(
    cluster: Any, make_options: Options, poisoned: Any, tmp_path: Path, tags: str, pull_max: int
) -> None:
    queue, good = poisoned
    cluster.filter_tags, cluster.pull_max = tags, pull_max
    options = make_options(startingOffsets="earliest", failOnDataLoss="false", lossTable=tmp_path, tags=tags)
    assert read(cluster, queue, options) == [(offset, b"good") for offset in good]
    rows = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert sorted(row["lostFrom"] for row in rows) == sorted({*range(len(cluster.logs[queue]))} - {*good})
    assert all(row["messages"] == 1 and row["reason"].startswith("damaged: ") for row in rows)
    read(cluster, queue, options)
    assert len([*tmp_path.iterdir()]) == len(rows), "read again, each counts once"


@pytest.mark.parametrize("tags", ["*", "A"])
def test_the_error_names_the_place_and_the_cure(cluster: Any, make_options: Options, poisoned: Any, tags: str) -> None:
    queue, _good = poisoned
    with pytest.raises(DamagedMessage) as caught:
        read(cluster, queue, make_options(startingOffsets="earliest", tags=tags))
    assert "offset 2 of topic T, broker broker-a, queue 0 is damaged" in str(caught.value)
    assert "failOnDataLoss" in caught.value.hint


def test_what_was_damaged_on_its_way_only_is_read(
    cluster: Any, make_options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"%d" % number for number in range(10)])
    pull, bad = cluster.pull, [True]

    async def once_damaged(*asked: Any, **more: Any) -> Pulled:
        found: Pulled = await pull(*asked, **more)
        if bad.pop() if bad else False:
            return Pulled(found.outcome, bytes(len(found.data)), found.next_offset, found.bounds)
        return found

    monkeypatch.setattr(cluster, "pull", once_damaged)
    rows = read(cluster, queue, make_options(startingOffsets="earliest"))
    assert rows == [(number, b"%d" % number) for number in range(10)]


def test_a_time_is_found_beside_damaged_messages(cluster: Any, make_options: Options, poisoned: Any) -> None:
    """The answer may be a damaged message before the first sound one of that time, never one behind it."""
    queue, good = poisoned
    options = make_options(startingOffsets="earliest")
    bounds = cluster.run(bounds_of(cluster, options, [queue]))
    for cluster.seek_error in (0, 1, -1, 5):
        for number in range(len(BAD) + 1):
            times = {queue: BEGAN_MS + number}
            found = cluster.run(offsets_of_times(cluster, options, times, bounds))[queue]
            assert found == good[2 * number] or found == good[2 * number] - 1


def test_sizes_are_estimated_from_damaged_samples(cluster: Any, make_options: Options, poisoned: Any) -> None:
    queue, _good = poisoned
    sizes = RecordSizes(cluster, make_options(startingOffsets="earliest"))
    end = len(cluster.logs[queue])
    assert all(sizes.measure({queue: (start, end)})[queue] > 50 for start in range(end))


def test_a_stream_goes_on_and_reads_a_batch_again_alike(
    cluster: Any, driver: Callable[..., Any], poisoned: Any, tmp_path: Path
) -> None:
    _queue, good = poisoned
    query = driver(startingOffsets="earliest", failOnDataLoss="false", lossTable=tmp_path, maxBytesPerTrigger="3k")
    query.start(kill_at="after rows are read")
    query.start()
    assert [row[2] for row in query.rows] == good
    assert len([*tmp_path.iterdir()]) == len(BAD)


def test_an_empty_body_that_says_it_is_compressed_is_an_empty_body(
    cluster: Any, make_options: Options, make_record: Callable[..., bytes]
) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"x")
    cluster.logs[queue][0] = make_record(queue, 0, b"", sys_flag=1)
    assert read(cluster, queue, make_options(startingOffsets="earliest")) == [(0, b"")]
