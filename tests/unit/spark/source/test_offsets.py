from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.offsets import from_nested, to_nested

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
