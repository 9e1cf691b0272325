from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.offsets import from_nested, parse_positions, share_limit, to_nested

QUEUES = st.builds(
    MessageQueue, st.sampled_from(["T", "a", "Z"]), st.sampled_from(["broker-a", "broker-b"]), st.integers(0, 30)
)
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**60), max_size=20)


@given(OFFSETS, st.randoms())
def test_equal_offsets_are_equal_text_whatever_their_order(offsets: dict[MessageQueue, int], random: object) -> None:
    shuffled = list(offsets.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    text = json.dumps(to_nested(offsets))
    assert json.dumps(to_nested(dict(shuffled))) == text
    assert from_nested(json.loads(text)) == offsets
    assert json.dumps(to_nested(from_nested(json.loads(text)))) == text


def test_queue_ids_are_ordered_as_numbers() -> None:
    offsets = {MessageQueue("T", "b", number): number for number in (10, 9, 2)}
    assert list(to_nested(offsets)["T"]["b"]) == ["2", "9", "10"]


@pytest.mark.parametrize("text", ['{"logOffset": 3}', '{"T": {"b": {"x": 1}}}', '{"T": {"b": {"0": "1"}}}', '{"T": 5}'])
def test_the_checkpoint_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="checkpoint"):
        from_nested(json.loads(text))


A0, A1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
LOW, HIGH = {A0: 5, A1: 0}, {A0: 9, A1: 7}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", {A0: 5, A1: 0}),
        ("LATEST", {A0: 9, A1: 7}),
        ('{"T": "latest"}', {A0: 9, A1: 7}),
        ('{"T": {"a": {"0": -2, "1": -1}}}', {A0: 5, A1: 7}),
        ('{"T": {"a": {"0": 9, "1": "earliest"}}}', {A0: 9, A1: 0}),
        ('{"T": {"a": {"0": 3, "1": 7}}}', {A0: 3, A1: 7}),
    ],
)
def test_positions_become_one_number_per_queue(text: str, expected: dict[MessageQueue, int]) -> None:
    assert parse_positions("startingOffsets", text, ("T",)).resolve(LOW, HIGH) == expected


def test_json_that_leaves_a_queue_out_or_invents_one_is_refused_with_both_lists() -> None:
    positions = parse_positions("startingOffsets", '{"T": {"a": {"0": 1, "5": 1}}}', ("T",))
    with pytest.raises(UsageError) as caught:
        positions.resolve(LOW, HIGH)
    assert "missing: topic T, broker a, queue 1" in str(caught.value)
    assert "unknown: topic T, broker a, queue 5" in str(caught.value)


def test_an_offset_past_the_end_is_refused() -> None:
    with pytest.raises(UsageError, match="10 of topic T, broker a, queue 0"):
        parse_positions("startingOffsets", '{"T": {"a": {"0": 10, "1": 0}}}', ("T",)).resolve(LOW, HIGH)


@given(st.dictionaries(QUEUES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 500))
def test_a_limit_is_shared_without_starving_a_queue_or_passing_its_end(
    backlog: dict[MessageQueue, tuple[int, int]], limit: int
) -> None:
    start = {queue: low for queue, (low, _) in backlog.items()}
    end = {queue: low + more for queue, (low, more) in backlog.items()}
    shared = share_limit(start, end, limit)
    assert all(start[queue] <= shared[queue] <= end[queue] for queue in backlog)
    assert all(shared[queue] > start[queue] for queue in backlog if end[queue] > start[queue])
    assert sum(shared.values()) - sum(start.values()) <= limit + len(backlog)
