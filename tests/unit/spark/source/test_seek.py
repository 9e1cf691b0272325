from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import bounds_of
from rocketlake.spark.source.seek import resolve

Options = Callable[..., Any]


@pytest.fixture
def queues(cluster: Any) -> tuple[MessageQueue, MessageQueue]:
    """Queue 0 holds offsets 5 to 8, queue 1 offsets 0 to 6; each message is stored a second after the one before."""
    first, second = cluster.add_queue(0), cluster.add_queue(1)
    for queue, count in ((first, 9), (second, 7)):
        for number in range(count):
            cluster.append(queue, b"x", store_ms=1_700_000_000_000 + 1000 * number)
    cluster.expire(first, 5)
    return first, second


def starts(cluster: Any, options: Any) -> list[int]:
    found = bounds_of(cluster, options, sorted(cluster.logs))
    bounds = cluster.run(found)
    resolved = cluster.run(resolve(cluster, options, options.starting, bounds))
    return [resolved[queue] for queue in sorted(resolved)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", [5, 0]),
        ("LATEST", [9, 7]),
        ('{"T": "latest"}', [9, 7]),
        ('{"T": -2}', [5, 0]),
        ('{"T": {"broker-a": {"0": -2, "1": -1}}}', [5, 7]),
        ('{"T": {"broker-a": {"0": 9, "1": "earliest"}}}', [9, 0]),
        ('{"T": {"broker-a": {"0": 3, "1": 7}}}', [3, 7]),
        ('{"T": {"broker-a": {"0": "group", "1": 7}}}', [6, 7]),
        ("group", [6, 0]),
    ],
)
def test_positions_become_one_number_per_queue(
    cluster: Any, make_options: Options, queues: Any, text: str, expected: list[int]
) -> None:
    cluster.kept["G", queues[0]] = 6
    assert starts(cluster, make_options(startingOffsets=text, consumerGroup="G")) == expected


def test_json_that_leaves_a_queue_out_or_invents_one_is_refused_with_both_lists(
    cluster: Any, make_options: Options, queues: Any
) -> None:
    with pytest.raises(UsageError) as caught:
        starts(cluster, make_options(startingOffsets='{"T": {"broker-a": {"0": 5, "5": 1}}}'))
    assert "missing: topic T, broker broker-a, queue 1" in str(caught.value)
    assert "unknown: topic T, broker broker-a, queue 5" in str(caught.value)


def test_an_offset_past_the_end_is_refused(cluster: Any, make_options: Options, queues: Any) -> None:
    with pytest.raises(UsageError, match="10 of topic T, broker broker-a, queue 0"):
        starts(cluster, make_options(startingOffsets='{"T": {"broker-a": {"0": 10, "1": 0}}}'))


@pytest.mark.parametrize("wrong_by", [0, -1, 1, -3, 3, 100])
@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, [5, 0]),
        (1_700_000_003_000, [5, 3]),
        (1_700_000_005_000, [5, 5]),
        (1_700_000_005_001, [6, 6]),
        (1_700_000_006_000, [6, 6]),
        (1_700_000_006_001, [7, 7]),
        (1_700_000_009_000, [9, 7]),
    ],
)
def test_a_time_is_the_first_message_stored_then_or_later_even_if_the_broker_is_a_little_wrong(
    cluster: Any, make_options: Options, queues: Any, time_ms: int, expected: list[int], wrong_by: int
) -> None:
    """Brokers of 4.9 answer the message nearest to the time."""
    cluster.seek_error = wrong_by
    assert starts(cluster, make_options(startingTimestamp=time_ms)) == expected
    by_queue = f'{{"T": {{"broker-a": {{"0": {time_ms}, "1": {time_ms}}}}}}}'
    assert starts(cluster, make_options(startingOffsetsByTimestamp=by_queue)) == expected
    assert starts(cluster, make_options(startingOffsetsByTimestamp=f'{{"T": {time_ms}}}')) == expected


def test_messages_of_one_millisecond_are_all_taken(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    for store_ms in (10**12, 10**12 + 1, 10**12 + 1, 10**12 + 1, 10**12 + 2):
        cluster.append(queue, b"x", store_ms=store_ms)
    for wrong_by in (-1, 0, 1, 2):
        cluster.seek_error = wrong_by
        assert starts(cluster, make_options(startingTimestamp=10**12 + 1)) == [1]


def test_a_time_goes_before_times_per_queue_and_these_before_offsets(
    cluster: Any, make_options: Options, queues: Any
) -> None:
    by_time = {"startingOffsetsByTimestamp": '{"T": 1700000006000}'}
    assert starts(cluster, make_options(startingOffsets="earliest", **by_time)) == [6, 6]
    assert starts(cluster, make_options(startingTimestamp="1700000003000", **by_time)) == [5, 3]


def test_a_time_after_the_last_message_is_an_error_if_that_is_wanted(
    cluster: Any, make_options: Options, queues: Any
) -> None:
    strict = {"startingOffsetsByTimestampStrategy": "error"}
    assert starts(cluster, make_options(startingTimestamp="1700000006000", **strict)) == [6, 6]
    with pytest.raises(UsageError, match=r"2023-11-14T22:13:27.*queue 1"):
        starts(cluster, make_options(startingTimestamp="1700000007000", **strict))
