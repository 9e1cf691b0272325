"""Whole histories of a streaming query: Spark's order of calls, crashes at every point, a cluster that changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.spark.source.losses import DataLoss

Drivers = Callable[..., Any]


def offsets_of(driver: Any) -> list[tuple[int, int]]:
    return sorted((queue_id, offset) for _, queue_id, offset, _ in driver.rows)


def test_a_query_reads_all_there_is_and_then_what_comes(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"a", b"b")
    query = driver(startingOffsets="earliest")
    query.start()
    cluster.append(queue, b"c")
    cluster.seconds += 10
    query.start()
    assert [body for *_, body in query.rows] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("place", ["consumerGroup", "offsetStore"])
def test_a_query_that_starts_at_latest_loses_nothing_when_it_is_stopped_in_batch_0(
    cluster: Any, driver: Drivers, tmp_path: Path, place: str, kill_point: str
) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"before", b"before")
    query = driver(startingOffsets="latest", **{place: "G" if place == "consumerGroup" else str(tmp_path / "starts")})
    query.start(kill_at="after initial offset")
    cluster.append(queue, b"1", b"2")
    query.start(kill_at=kill_point)
    cluster.append(queue, b"3")
    query.start()
    assert [body for *_, body in query.rows] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("place", ["consumerGroup", "offsetStore"])
def test_a_new_checkpoint_starts_at_latest_anew_once_the_first_query_was_under_way(
    cluster: Any, driver: Drivers, tmp_path: Path, place: str
) -> None:
    queue = cluster.add_queue(0)
    given = {place: "G" if place == "consumerGroup" else str(tmp_path / "starts")}
    first = driver(startingOffsets="latest", **given)
    first.start()
    for body in (b"1", b"2"):
        cluster.append(queue, body)
        first.start()
    assert [body for *_, body in first.rows] == [b"1", b"2"]
    second = driver(startingOffsets="latest", **given)
    second.start()
    cluster.append(queue, b"3")
    second.start()
    assert [body for *_, body in second.rows] == [b"3"]


def test_first_offsets_at_the_brokers_do_not_mix_with_the_groups_progress(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"0", b"1")
    query = driver(startingOffsets="latest", consumerGroup="G")
    query.start(kill_at="after initial offset")
    assert cluster.kept["G_spark_start", queue] == 3
    cluster.append(queue, b"2")
    query.start()
    query.start()
    assert cluster.kept["G", queue] == 3
    assert cluster.kept["G_spark_start", queue] == 0


def test_a_broker_that_does_not_keep_the_first_offsets_stops_the_query(cluster: Any, driver: Drivers) -> None:
    cluster.add_queue(0)

    async def refuse(group: str, queue: object, offset: int) -> None:
        pass

    cluster.keep_offset = refuse
    with pytest.raises(UsageError, match="did not keep"):
        driver(startingOffsets="latest", consumerGroup="G").start()


@pytest.mark.parametrize("text", ["{", '{"offsets": 5}', '{"other": {}}'])
def test_a_broken_file_of_first_offsets_stops_the_query(
    cluster: Any, driver: Drivers, tmp_path: Path, text: str
) -> None:
    cluster.add_queue(0)
    query = driver(startingOffsets="latest", offsetStore=f"file://{tmp_path}")
    query.start(kill_at="after initial offset")
    (file,) = tmp_path.glob("first-offsets-*.json")
    file.write_text(text)
    with pytest.raises(Exception, match=r"first offsets|can be read"):
        query.start()


@pytest.mark.parametrize("folder", ["s3://bucket", "hdfs://host/x", "relative/x"])
def test_a_folder_the_driver_cannot_keep_files_in_is_refused(cluster: Any, driver: Drivers, folder: str) -> None:
    cluster.add_queue(0)
    with pytest.raises(UsageError, match="offsetStore"):
        driver(startingOffsets="latest", offsetStore=folder).start()


def test_a_limit_makes_many_batches_and_each_queue_moves_in_each(cluster: Any, driver: Drivers) -> None:
    short, long = cluster.add_queue(0), cluster.add_queue(1)
    cluster.append(short, *[b"s"] * 5)
    cluster.append(long, *[b"l"] * 95)
    query = driver(startingOffsets="earliest", maxOffsetsPerTrigger=20)
    query.start()
    assert [len(rows) for rows in query.sink.values()] == [20, 20, 20, 20, 20]
    assert {queue_id for _, queue_id, _, _ in query.sink[0]} == {0, 1}
    assert offsets_of(query) == [(0, n) for n in range(5)] + [(1, n) for n in range(95)]


def test_a_queue_found_later_is_read_from_its_first_message(cluster: Any, driver: Drivers) -> None:
    first = cluster.add_queue(0)
    cluster.append(first, b"a")
    query = driver(startingOffsets="latest", consumerGroup="G")
    query.start()
    late = cluster.add_queue(1)
    cluster.append(late, *[b"n"] * 10)
    cluster.expire(late, 4)
    query.start()
    assert offsets_of(query) == [(1, n) for n in range(4, 10)]


def test_a_queue_found_while_batch_0_waits_to_be_done_again_is_read_whole(cluster: Any, driver: Drivers) -> None:
    first = cluster.add_queue(0)
    query = driver(startingOffsets="latest", consumerGroup="G")
    query.start(kill_at="after initial offset")
    cluster.append(cluster.add_queue(1), b"x", b"y")
    cluster.append(first, b"z")
    query.start()
    assert offsets_of(query) == [(0, 0), (1, 0), (1, 1)]


def test_available_now_reads_what_was_there_at_its_start_in_limited_batches(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 50)
    query = driver(startingOffsets="earliest", maxOffsetsPerTrigger=20)
    partitions = type(query)._task
    seen = 0

    def task_while_more_arrives(self: Any, partition: Any) -> Any:
        nonlocal seen
        seen += 1
        cluster.append(queue, b"later")
        return partitions(self, partition)

    query._task = task_while_more_arrives.__get__(query)
    query.start(available_now=True)
    assert seen == 3
    assert offsets_of(query) == [(0, n) for n in range(50)]
    query.start(available_now=True)
    assert offsets_of(query)[:53] == [(0, n) for n in range(53)]


def test_an_idle_query_asks_the_brokers_seldom(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"x")
    query = driver(startingOffsets="earliest")
    query.start()
    reader = query._reader
    start = reader.initialOffset()
    began = cluster.seconds
    cluster.calls.clear()
    while cluster.seconds < began + 60:
        cluster.seconds += 0.011
        reader.latestOffset(start, reader.getDefaultReadLimit())
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end != start
    start, began = end, cluster.seconds
    cluster.calls.clear()
    while cluster.seconds < began + 60:
        cluster.seconds += 0.011
        assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    assert len(cluster.calls) <= 2 * 60


def test_an_idle_query_sees_a_new_message_soon(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest")
    query.start()
    reader, limit = query._reader, query._reader.getDefaultReadLimit()
    start = reader.initialOffset()
    for _ in range(200):
        assert reader.latestOffset(start, limit) == start
    cluster.append(queue, b"x")
    began = cluster.seconds
    while reader.latestOffset(start, limit) == start:
        cluster.seconds += 0.011
    assert cluster.seconds - began <= 0.7


def test_a_topic_made_anew_is_an_error_that_names_queue_and_ranges(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    query = driver(startingOffsets="earliest")
    query.start()
    cluster.recreate(queue)
    cluster.append(queue, b"n")
    with pytest.raises(DataLoss, match=r"topic T, broker broker-a, queue 0.*available 0 to 0"):
        query.start()


def test_with_fail_on_data_loss_off_a_topic_made_anew_is_read_from_its_start(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    query = driver(startingOffsets="earliest", failOnDataLoss="false")
    query.start()
    cluster.recreate(queue)
    cluster.append(queue, b"n", b"m")
    query.start()
    cluster.append(queue, b"o")
    query.start()
    assert [body for *_, body in query.rows[10:]] == [b"n", b"m", b"o"]


def test_a_broker_out_of_the_route_is_waited_for(cluster: Any, driver: Drivers) -> None:
    here, away = cluster.add_queue(0), cluster.add_queue(0, broker="broker-b")
    cluster.append(here, b"1")
    cluster.append(away, b"1")
    query = driver(startingOffsets="earliest")
    query.start()
    cluster.hidden.add(away)
    cluster.append(here, b"2")
    cluster.append(away, b"2")
    query.start()
    assert len(query.rows) == 3
    cluster.hidden.clear()
    query.start()
    assert sorted((broker, offset) for broker, _, offset, _ in query.rows) == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["consumerGroup", "offsetStore"])
def test_batch_0_planned_again_while_a_broker_is_away_loses_nothing(
    cluster: Any, driver: Drivers, tmp_path: Path, place: str
) -> None:
    here, away = cluster.add_queue(0), cluster.add_queue(0, broker="broker-b")
    cluster.append(away, b"old")
    query = driver(startingOffsets="latest", **{place: "G" if place == "consumerGroup" else str(tmp_path)})
    query.start(kill_at="after initial offset")
    cluster.append(here, b"1")
    cluster.append(away, b"2")
    query.start(kill_at="after rows are read")
    cluster.hidden.add(away)
    with suppress(LinkError):
        query.start()
    cluster.hidden.clear()
    query.start()
    assert sorted(body for *_, body in query.rows) == [b"1", b"2"]


def test_a_topic_without_a_route_is_an_error_at_once_when_the_query_starts(cluster: Any, driver: Drivers) -> None:
    with pytest.raises(UsageError, match="no route for topic 'T'"):
        driver(startingOffsets="earliest").start()


def test_a_route_that_vanishes_for_a_short_time_does_not_end_a_running_query(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest")
    query.start()
    reader, limit = query._reader, query._reader.getDefaultReadLimit()
    start = reader.initialOffset()
    cluster.hidden.add(queue)
    cluster.seconds += 30
    assert reader.latestOffset(start, limit) == start
    cluster.seconds += 100
    with pytest.raises(UsageError, match="no route"):
        reader.latestOffset(start, limit)


def test_a_pattern_takes_topics_that_are_made_while_the_stream_runs(cluster: Any, driver: Drivers) -> None:
    cluster.append(cluster.add_queue(0, topic="orders-eu"), b"1", b"2")
    cluster.append(cluster.add_queue(0, topic="payments"), b"p")
    query = driver(subscribePattern="orders-.*", startingOffsets="earliest")
    query.start()
    cluster.append(cluster.add_queue(0, topic="orders-us"), b"3")
    cluster.append(cluster.add_queue(0, topic="%RETRY%orders-us"), b"r")
    cluster.seconds += 60
    query.start()
    assert sorted(body for *_, body in query.rows) == [b"1", b"2", b"3"]


def test_a_pattern_may_begin_with_no_topic_at_all(cluster: Any, driver: Drivers) -> None:
    query = driver(subscribePattern="orders-.*", startingOffsets="latest", consumerGroup="G")
    query.start()
    reader, limit = query._reader, query._reader.getDefaultReadLimit()
    queue = cluster.add_queue(0, topic="orders-eu")
    cluster.append(queue, b"1")
    cluster.seconds += 60
    joined = reader.latestOffset({}, limit)
    assert joined == {"orders-eu": {"broker-a": {"0": 0}}}
    assert reader.latestOffset(joined, limit)["orders-eu"] == {"broker-a": {"0": 1}}


def test_assigned_queues_are_read_and_no_others_join(cluster: Any, driver: Drivers) -> None:
    for number in range(3):
        cluster.append(cluster.add_queue(number), b"%d" % number)
    query = driver(assign='{"T": {"broker-a": [0, 2]}}', startingOffsets="earliest")
    query.start()
    cluster.append(cluster.add_queue(3), b"3")
    cluster.seconds += 60
    query.start()
    assert offsets_of(query) == [(0, 0), (2, 0)]


def test_assigned_queues_that_are_not_there_are_named(cluster: Any, driver: Drivers) -> None:
    cluster.add_queue(0)
    with pytest.raises(UsageError, match=r"not in the route: .*queue 7; there: .*queue 0"):
        driver(assign='{"T": {"broker-a": [0, 7]}}', startingOffsets="earliest").start()


def test_a_query_that_starts_where_a_group_stands_keeps_that_start(
    cluster: Any, driver: Drivers, kill_point: str
) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *(b"%d" % n for n in range(6)))
    cluster.kept["live", queue] = 4
    query = driver(startingOffsets="group", startingGroup="live", consumerGroup="G")
    query.start(kill_at="after initial offset")
    cluster.kept["live", queue] = 6
    query.start(kill_at=kill_point)
    query.start()
    assert [body for *_, body in query.rows] == [b"4", b"5"]
    assert cluster.kept["live", queue] == 6


def test_an_ending_time_bounds_a_replay_exactly(cluster: Any, driver: Drivers) -> None:
    first, second = cluster.add_queue(0), cluster.add_queue(1)
    for queue, count in ((first, 9), (second, 3)):
        for number in range(count):
            cluster.append(queue, b"x", store_ms=10**12 + number)
    query = driver(startingTimestamp=10**12 + 2, endingTimestamp=10**12 + 5, maxOffsetsPerTrigger=2)
    query.start(available_now=True)
    assert offsets_of(query) == [(0, 2), (0, 3), (0, 4), (1, 2)]
    cluster.append(second, b"in time", store_ms=10**12 + 4)
    cluster.append(second, b"too late", b"too late", store_ms=10**12 + 5)
    query.start(available_now=True)
    assert offsets_of(query) == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3)]


def test_an_end_in_the_future_is_kept_by_a_running_stream(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest", endingTimestamp=10**12 + 100)
    for store_ms in (10**12, 10**12 + 99, 10**12 + 100, 10**12 + 101):
        cluster.append(queue, b"x", store_ms=store_ms)
        query.start()
    assert offsets_of(query) == [(0, 0), (0, 1)]


def test_a_stream_may_end_at_offsets_that_are_not_there_yet(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest", endingOffsets='{"T": {"broker-a": {"0": 5}}}')
    for _ in range(4):
        cluster.append(queue, b"x", b"x")
        query.start()
    assert offsets_of(query) == [(0, n) for n in range(5)]


def test_a_limit_of_bytes_makes_many_batches_of_about_that_size(cluster: Any, driver: Drivers) -> None:
    small, large = cluster.add_queue(0), cluster.add_queue(1)
    cluster.append(small, *[b"s" * 900] * 200)
    cluster.append(large, *[b"l" * 9900] * 50)
    query = driver(startingOffsets="earliest", maxBytesPerTrigger="100k")
    query.start(available_now=True)
    sizes = [sum(len(body) + 100 for *_, body in rows) for rows in query.sink.values()]
    assert len(query.rows) == 250
    assert max(sizes) <= 115_000
    assert len(sizes) <= 12


def test_a_minimum_of_rows_is_waited_for_at_most_the_time_set(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="1m")
    cluster.append(queue, b"x")
    query.start()
    reader, limit = query._reader, query._reader.getDefaultReadLimit()
    start = {"T": {"broker-a": {"0": 1}}}
    cluster.append(queue, b"y")
    began = cluster.seconds
    while reader.latestOffset(start, limit) == start:
        assert cluster.seconds < began + 120
    assert cluster.seconds - began >= 55
    end = reader.latestOffset(start, limit)
    cluster.append(queue, *[b"z"] * 10)
    began = cluster.seconds
    while reader.latestOffset(end, limit) == end:
        pass
    assert cluster.seconds - began < 5


def test_available_now_leaves_no_rest_below_the_minimum(cluster: Any, driver: Drivers) -> None:
    cluster.append(cluster.add_queue(0), *[b"x"] * 25)
    query = driver(startingOffsets="earliest", minOffsetsPerTrigger=10, maxOffsetsPerTrigger=10)
    query.start(available_now=True)
    assert len(query.rows) == 25


def test_a_stream_of_many_queues_topics_and_brokers_costs_two_calls_a_second_when_idle(
    cluster: Any, driver: Drivers
) -> None:
    for broker in ("broker-a", "broker-b"):
        for topic in ("orders-eu", "orders-us", "orders-asia"):
            for number in range(16):
                cluster.append(cluster.add_queue(number, topic=topic, broker=broker), b"x")
    query = driver(subscribePattern="orders-.*", startingOffsets="earliest")
    query.start()
    reader, limit = query._reader, query._reader.getDefaultReadLimit()
    start = json.loads(query.offsets[-1])
    assert reader.latestOffset(start, limit) == start
    cluster.calls.clear()
    began = cluster.seconds
    while cluster.seconds < began + 300:
        cluster.seconds += 0.011
        assert reader.latestOffset(start, limit) == start
    assert len(cluster.calls) <= 2 * 300


def test_a_topic_made_anew_is_noticed_even_when_it_is_longer_than_what_was_read(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    query = driver(startingOffsets="earliest", maxOffsetsPerTrigger=5)
    query.start(batches=1)
    reader, limit, start = query._reader, query._reader.getDefaultReadLimit(), json.loads(query.offsets[-1])
    cluster.recreate(queue)
    cluster.append(queue, *[b"n"] * 8)
    cluster.seconds += 10
    with pytest.raises(DataLoss, match=r"wanted offsets 5 to 9.*made anew"):
        for _ in range(3):
            cluster.seconds += 10
            reader.latestOffset(start, limit)


def test_losses_are_counted_once_in_the_loss_table(cluster: Any, driver: Drivers, tmp_path: Path) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 100)
    given = {"failOnDataLoss": "false", "lossTable": f"file://{tmp_path}/losses"}
    query = driver(startingOffsets="earliest", maxOffsetsPerTrigger=50, **given)
    query.start(batches=1)
    cluster.expire(queue, 70)
    query.start(kill_at="after rows are read")
    query.start()
    assert offsets_of(query)[50:] == [(0, n) for n in range(70, 100)]
    (row,) = [json.loads(file.read_text()) for file in (tmp_path / "losses").glob("loss-*.json")]
    assert (row["topic"], row["queueId"], row["lostFrom"], row["lostTo"], row["messages"]) == ("T", 0, 50, 69, 20)


def test_progress_of_the_group_is_published_even_after_available_now(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 7)
    driver(startingOffsets="earliest", consumerGroup="G").start(available_now=True)
    assert cluster.kept["G", queue] == 7


def test_a_query_goes_on_when_its_progress_cannot_be_published(cluster: Any, driver: Drivers) -> None:
    queue = cluster.add_queue(0)
    query = driver(startingOffsets="earliest", consumerGroup="G")
    query.start()

    async def refuse(*_: object) -> None:
        raise LinkError("down")

    cluster.append(queue, b"x")
    cluster.keep_offset = refuse
    cluster.append(queue, b"y")
    query.start()
    assert len(query.rows) == 2
