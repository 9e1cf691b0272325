from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.spark.schema import arrow_schema, full_schema
from rocketlake.spark.source.losses import DamagedMessage, DataLoss
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_read import read_ranges

SCHEMA = arrow_schema(full_schema())
Options = Callable[..., Any]


def offsets(cluster: Any, wanted: QueueRange, options: Any) -> list[int]:
    return [
        n for batch in read_ranges(cluster, [wanted], options, SCHEMA) for n in batch.column("queueOffset").to_pylist()
    ]


@pytest.mark.parametrize(("low", "high"), [(0, 100), (0, 1), (31, 33), (99, 100), (40, 40)])
def test_a_range_is_read_exactly(cluster: Any, make_options: Options, low: int, high: int) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *(b"%d" % n for n in range(150)))
    assert offsets(cluster, QueueRange(queue, low, high), make_options(startingOffsets="earliest")) == [
        *range(low, high)
    ]


def test_batches_close_at_8192_rows(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 20_000)
    cluster.pull_max = 1024
    options = make_options(startingOffsets="earliest", pullBatchSize=1024)
    sizes = [batch.num_rows for batch in read_ranges(cluster, [QueueRange(queue, 0, 20_000)], options, SCHEMA)]
    assert sum(sizes) == 20_000
    assert max(sizes) == 8192
    assert len(sizes) <= 8


def test_batches_close_at_two_mebibytes(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x" * 100_000] * 50)
    cluster.pull_max = 1
    batches = list(read_ranges(cluster, [QueueRange(queue, 0, 50)], make_options(startingOffsets="earliest"), SCHEMA))
    assert [batch.num_rows for batch in batches] == [1, 20, 20, 9]


def test_messages_that_suddenly_grow_do_not_fill_the_memory(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 3000, *[b"x" * 1_000_000] * 40)
    options = make_options(startingOffsets="earliest")
    batches = list(read_ranges(cluster, [QueueRange(queue, 0, 3040)], options, SCHEMA))
    assert [n for batch in batches for n in batch.column("queueOffset").to_pylist()] == [*range(3040)]
    assert max(batch.nbytes for batch in batches) < 40_000_000


def test_a_broken_line_is_tried_again_for_a_time(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"a", b"b")
    options = make_options(startingOffsets="earliest")
    cluster.failures = [LinkError("refused"), ConnectionRefusedError("refused")] * 10
    assert offsets(cluster, QueueRange(queue, 0, 2), options) == [0, 1]
    assert 60 < cluster.seconds < 120
    cluster.failures = [LinkError("gone", where="b:1", hint="a cure")] * 100
    began, cluster.calls = cluster.seconds, []
    with pytest.raises(LinkError, match=r"queue 0 at offset 0 failed \d+ times in \d+ s: gone \(b:1\)") as caught:
        offsets(cluster, QueueRange(queue, 0, 2), options)
    assert 110 < cluster.seconds - began <= 120
    assert len(cluster.calls) < 40
    assert str(caught.value).count("Cure") == 1


def test_a_refusal_is_tried_again_a_bounded_number_of_times(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, b"a", b"b")
    cluster.failures = [RemoteError("busy", code=2)] * 10
    with pytest.raises(LinkError, match=r"queue 0 at offset 0 failed 3 times in 1 s: busy"):
        offsets(cluster, QueueRange(queue, 0, 2), make_options(startingOffsets="earliest"))


def test_expired_messages_are_an_error_that_names_topic_queue_and_both_ranges(
    cluster: Any, make_options: Options
) -> None:
    queue = cluster.add_queue(4)
    cluster.append(queue, *[b"x"] * 100)
    cluster.expire(queue, 60)
    with pytest.raises(DataLoss) as caught:
        offsets(cluster, QueueRange(queue, 10, 90), make_options(startingOffsets="earliest"))
    text = str(caught.value)
    assert "offsets 10 to 89 of topic T, broker broker-a, queue 4" in text
    assert "available 60 to 99" in text
    assert "failOnDataLoss" in text


def test_with_fail_on_data_loss_off_what_is_left_is_read(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(4)
    cluster.append(queue, *[b"x"] * 100)
    cluster.expire(queue, 60)
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    assert offsets(cluster, QueueRange(queue, 10, 90), options) == [*range(60, 90)]
    assert offsets(cluster, QueueRange(queue, 10, 50), options) == []


def test_a_lost_tail_is_an_error_after_some_tries(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    with pytest.raises(DataLoss, match="offsets 10 to 19"):
        offsets(cluster, QueueRange(queue, 0, 20), make_options(startingOffsets="earliest"))
    assert cluster.seconds > 0
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    assert offsets(cluster, QueueRange(queue, 0, 20), options) == [*range(10)]


def test_a_hole_in_the_queue_is_lost_data_not_a_shorter_result(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 10)
    for hole in (3, 4, 7):
        cluster.logs[queue][hole] = b""
    with pytest.raises(DataLoss, match="offsets 3 to 9"):
        offsets(cluster, QueueRange(queue, 0, 10), make_options(startingOffsets="earliest"))
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    assert offsets(cluster, QueueRange(queue, 0, 10), options) == [0, 1, 2, 5, 6, 8, 9]


def test_records_out_of_order_are_damaged(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    cluster.append(queue, *[b"x"] * 4)
    log = cluster.logs[queue]
    log[1], log[2] = log[2], log[1]
    with pytest.raises(DamagedMessage, match="it says it has queue offset 2, not 1"):
        offsets(cluster, QueueRange(queue, 0, 4), make_options(startingOffsets="earliest"))
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    assert offsets(cluster, QueueRange(queue, 0, 4), options) == [0, 3]


@pytest.mark.parametrize("seed", range(20))
def test_tags_are_filtered_and_the_range_still_ends_where_it_should(
    cluster: Any, make_options: Options, seed: int
) -> None:
    rng = random.Random(seed)
    queue = cluster.add_queue(0)
    for n in range(200):
        cluster.append(queue, b"%d" % n, tag=rng.choice(["A", "B", "C", ""]))
    cluster.pull_max = rng.randrange(1, 20)
    cluster.filter_tags = "A || B"
    low = rng.randrange(100)
    high = rng.randrange(low, 200)
    expected = [n for n in range(low, high) if cluster.tags[queue][n] in ("A", "B")]
    assert (
        offsets(cluster, QueueRange(queue, low, high), make_options(startingOffsets="earliest", tags="A || B"))
        == expected
    )


def test_a_message_whose_tag_only_hashes_alike_is_dropped(cluster: Any, make_options: Options) -> None:
    """ "Aa" and "BB" have the same hash, by which a broker filters."""
    queue = cluster.add_queue(0)
    cluster.append(queue, b"0", tag="Aa")
    cluster.append(queue, b"1", tag="BB")
    cluster.filter_tags = "*"
    assert offsets(cluster, QueueRange(queue, 0, 2), make_options(startingOffsets="earliest", tags="Aa")) == [0]
