"""A topic that is made anew while its query is stopped, longer than before: its head is not skipped in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.disk.posix import PosixFiles
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


def test_the_last_message_is_marked_and_two_earlier_ones_while_they_are_there(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest")
    marked = []
    for low in (0, 0, 3, 25):
        cluster.append(queue, *[b"x"] * 10)
        cluster.expire(queue, low)
        query.start()
        (marks,) = marks_in(json.loads(query.offsets[-1])).values()
        marked.append([mark.offset for mark in marks])
    assert marked == [[0, 5, 9], [0, 5, 19], [5, 19, 29], [25, 29, 32, 39]]


def lose_the_end(cluster: Any, queue: Any, left: int) -> None:
    """As a power cut does with ASYNC_FLUSH."""
    for kept in (cluster.logs, cluster.tags, cluster.times):
        del kept[queue][left:]


LATER_MS = 1_600_000_009_999


@pytest.mark.parametrize("tags", ["*", "A"])
@pytest.mark.parametrize("new", [0, 3, 5, 40])
@pytest.mark.parametrize("left", [19, 17, 12, 8, 3])
def test_a_broker_that_lost_the_end_of_its_log_is_not_taken_for_a_new_topic(
    cluster: Any, driver: Drivers, tmp_path: Path, left: int, new: int, tags: str
) -> None:
    """Nothing is read twice, and each message that came since is read, whether there are more of them or fewer."""
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest", failOnDataLoss="false", lossTable=tmp_path, tags=tags)
    for number in range(4):
        cluster.append(queue, *[b"old%d" % (5 * number + n) for n in range(5)], tag="A")
        query.start()
    lose_the_end(cluster, queue, left)
    for number in range(new):
        cluster.append(queue, b"new%d" % number, tag="A", store_ms=LATER_MS + number)
    query.start()
    query.start()
    wanted = [b"new%d" % number for number in range(new)]
    assert bodies(query) == [b"old%d" % number for number in range(20)] + wanted
    (row,) = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert (row["lostFrom"], row["messages"]) == (20, None)
    assert f"other messages from offset {left} on" in row["reason"]
    cluster.append(queue, b"more", tag="A", store_ms=LATER_MS + 1000)
    query.start()
    assert bodies(query)[20:] == [*wanted, b"more"]


@pytest.mark.parametrize("new", [0, 1, 30])
def test_a_lost_end_is_an_error_that_says_where_to_go_on(cluster: Any, driver: Drivers, new: int) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old"] * 20)
    query = driver(startingOffsets="earliest")
    query.start()
    lose_the_end(cluster, queue, 15)
    cluster.append(queue, *[b"new"] * new, store_ms=LATER_MS)
    with pytest.raises(DataLoss, match=r"lost the end of its log.*--offset 15"):
        query.start()


def test_of_a_batch_planned_before_the_end_was_lost_only_what_is_left_is_read(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old%d" % number for number in range(20)])
    query = driver(startingOffsets="earliest", failOnDataLoss="false")
    query.start(kill_at="after rows are read")
    lose_the_end(cluster, queue, 12)
    cluster.append(queue, *[b"new%d" % number for number in range(30)], store_ms=LATER_MS)
    query.start()
    query.start()
    assert bodies(query) == [b"old%d" % n for n in range(12)] + [b"new%d" % n for n in range(30)]


def test_the_end_is_lost_under_a_running_query(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old"] * 20)
    query = driver(startingOffsets="earliest", failOnDataLoss="false")
    query.start()
    reader, limit, start = query._reader, query._reader.getDefaultReadLimit(), json.loads(query.offsets[-1])
    lose_the_end(cluster, queue, 12)
    cluster.append(queue, b"new", store_ms=LATER_MS)
    cluster.seconds += 10
    end = reader.latestOffset(start, limit)
    assert end["T"]["broker-a"]["0"] == 12
    assert reader.latestOffset(json.loads(json.dumps(end)), limit)["T"]["broker-a"]["0"] == 13


@pytest.mark.parametrize("fails", [True, False])
def test_the_end_is_lost_under_a_running_query_and_the_queue_is_longer_at_the_next_look(
    cluster: Any, driver: Drivers, fails: bool
) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old"] * 20)
    query = driver(startingOffsets="earliest", failOnDataLoss=str(fails).lower())
    query.start()
    reader, limit, start = query._reader, query._reader.getDefaultReadLimit(), json.loads(query.offsets[-1])
    lose_the_end(cluster, queue, 12)
    cluster.append(queue, *[b"new"] * 15, store_ms=LATER_MS)
    cluster.seconds += 10
    if fails:
        with pytest.raises(DataLoss, match=r"lost the end of its log.*--offset 12"):
            reader.latestOffset(start, limit)
        return
    end = reader.latestOffset(start, limit)
    assert end["T"]["broker-a"]["0"] == 12
    assert reader.latestOffset(json.loads(json.dumps(end)), limit)["T"]["broker-a"]["0"] == 27


def test_the_end_is_lost_and_the_last_message_was_damaged(cluster: Any, driver: Drivers) -> None:
    """It has no mark; the queue was read from its start again."""
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"old%d" % number for number in range(20)])
    last = cluster.logs[queue][-1]
    cluster.logs[queue][-1] = last[:4] + bytes(4) + last[8:]
    query = driver(startingOffsets="earliest", failOnDataLoss="false")
    query.start()
    lose_the_end(cluster, queue, 15)
    query.start()
    cluster.append(queue, b"new", store_ms=LATER_MS)
    query.start()
    assert bodies(query) == [*[b"old%d" % number for number in range(19)], b"new"]


def test_offsets_with_one_mark_are_read(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    query = driver(startingOffsets="earliest")
    query.start()
    nested = json.loads(query.offsets[-1])
    marks = nested["#read"]["T"]["broker-a"]
    marks["0"] = marks["0"][-1]
    query.offsets[-1] = json.dumps(nested)
    cluster.append(queue, b"y")
    query.start()
    assert bodies(query)[10:] == [b"y"]


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
    assert [mark.offset for mark in marks_in(json.loads(query.offsets[-1]))[queue]] == [0, 5, 10]


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
