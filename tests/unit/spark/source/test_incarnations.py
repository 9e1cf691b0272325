"""A topic that is made anew while its query is stopped, longer than before: its head is not skipped in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.files import PosixFiles
from rocketlake.spark.source.checkpoint import Checkpoint
from rocketlake.spark.source.incarnations import marks_in
from rocketlake.spark.source.losses import DataLoss

Drivers = Callable[..., Any]


def bodies(query: Any) -> list[bytes]:
    return [row[3] for row in query.rows]


@pytest.mark.parametrize("tags", ["*", "A"])
def test_longer_than_before_it_is_an_error(cluster: Any, driver: Drivers, tags: str) -> None:
    queue = cluster.add_queue(0)
    cluster.filter_tags = tags
    cluster.append(queue, *[b"old"] * 20, tag="A")
    query = driver(startingOffsets="earliest", tags=tags)
    query.start()
    cluster.recreate(queue)
    cluster.append(queue, *[b"new"] * 50, tag="A")
    for _ in range(2):
        with pytest.raises(DataLoss, match=r"made anew.*--offset 0"):
            query.start()
    assert bodies(query) == [b"old"] * 20


def test_with_fail_on_data_loss_off_all_of_it_is_read_and_nobody_invents_a_count(
    cluster: Any, driver: Drivers, tmp_path: Path
) -> None:
    queue, other = cluster.add_queue(0), cluster.add_queue(1)
    cluster.append(queue, *[b"old"] * 20)
    cluster.append(other, b"other")
    query = driver(startingOffsets="earliest", failOnDataLoss="false", lossTable=tmp_path)
    query.start()
    cluster.recreate(queue)
    cluster.append(queue, *[b"%d" % number for number in range(50)])
    cluster.append(other, b"another")
    query.start()
    query.start()
    assert sorted(bodies(query)[21:]) == sorted([b"another", *[b"%d" % number for number in range(50)]])
    (row,) = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert (row["lostFrom"], row["lostTo"], row["messages"]) == (20, None, None)
    cluster.recreate(queue)
    cluster.append(queue, *[b"third"] * 60)
    query.start()
    assert bodies(query)[-60:] == [b"third"] * 60


def test_a_batch_that_was_planned_before_does_not_read_the_new_topic(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old"] * 20)
    query = driver(startingOffsets="earliest")
    query.start(kill_at="after offsets are written")
    cluster.recreate(queue)
    cluster.append(queue, *[b"new"] * 50)
    with pytest.raises(DataLoss, match="made anew"):
        query.start()
    assert not query.rows


def test_a_mark_is_made_once_and_again_when_its_message_expired(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest")
    marks = []
    for low in (0, 0, 15):
        cluster.append(queue, *[b"x"] * 10)
        cluster.expire(queue, low)
        query.start()
        (mark,) = marks_in(json.loads(query.offsets[-1])).values()
        marks.append(mark.offset)
    assert marks == [9, 9, 29]


def test_offsets_of_an_earlier_release_have_no_marks(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    query = driver(startingOffsets="earliest")
    query.start()
    query.offsets[-1] = json.dumps({"T": {"broker-a": {"0": 10}}})
    query.start()
    cluster.append(queue, b"y")
    query.start()
    assert bodies(query)[10:] == [b"y"]
    assert marks_in(json.loads(query.offsets[-1]))[queue].offset == 10


def test_offsets_set_takes_the_queue_as_it_is_now(cluster: Any, driver: Drivers, tmp_path: Path) -> None:
    queue, other = cluster.add_queue(0), cluster.add_queue(1)
    cluster.append(queue, *[b"old"] * 20)
    cluster.append(other, b"other")
    query = driver(startingOffsets="earliest")
    query.start()
    cluster.recreate(queue)
    cluster.append(queue, *[b"new"] * 50)
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n" + query.offsets[-1])
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    assert Checkpoint(tmp_path, PosixFiles()).set(queue, 0) == 20
    query.offsets[-1] = (tmp_path / "offsets" / "0").read_text().split("\n")[2]
    assert [*marks_in(json.loads(query.offsets[-1]))] == [other]
    query.start()
    assert bodies(query)[21:] == [b"new"] * 50
