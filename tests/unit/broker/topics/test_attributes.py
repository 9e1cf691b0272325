from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.broker.topics.attributes import apply_changes


def test_a_new_topic_takes_what_is_added() -> None:
    assert apply_changes(None, "+message.type=FIFO, +reserve.time=-1") == {"message.type": "FIFO", "reserve.time": "-1"}
    assert apply_changes(None, None) == {}


def test_a_change_adds_changes_and_removes() -> None:
    current = {"message.type": "FIFO", "reserve.time": "5"}
    assert apply_changes(current, "+message.type=DELAY,-reserve.time") == {"message.type": "DELAY"}
    assert current == {"message.type": "FIFO", "reserve.time": "5"}


def test_a_topic_may_want_a_table_and_change_its_mind() -> None:
    wanted = apply_changes({}, "+lake.format=delta,+lake.body=json,+lake.keep.days=30")
    assert wanted == {"lake.format": "delta", "lake.body": "json", "lake.keep.days": "30"}
    assert apply_changes(wanted, "-lake.format,-lake.body,-lake.keep.days") == {}
    assert apply_changes({}, "-lake.format") == {}


@pytest.mark.parametrize(
    ("current", "text", "why"),
    [
        (None, "message.type=FIFO", "no sign"),
        (None, "-message.type", "cannot be removed"),
        (None, "+colour=red", "unknown attribute"),
        (None, "+message.type=FIFO,+message.type=DELAY", "given twice"),
        (None, "+message.type=fifo", "not known"),
        (None, "+reserve.time=-2", "out of range"),
        (None, "+reserve.time=soon", "out of range"),
        (None, "+lite.topic.expiration=43201", "-1 to 43200"),
        ({}, "+cleanup.policy=DELETE", "cannot change"),
        (None, "+cleanup.policy=COMPACTION", "not supported"),
        (None, "+queue.type=BatchCQ", "not supported"),
        (None, "+message.type=MIXED", "not supported"),
        (None, "+lake.format=orc", "not known"),
        ({}, "+lake.keep.days=0", "no number of days"),
        ({}, "+lake.colour=red", "unknown attribute"),
    ],
)
def test_a_change_that_is_not_allowed_says_why(current: dict[str, str] | None, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        apply_changes(current, text)
