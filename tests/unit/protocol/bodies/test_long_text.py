"""Answers that no frame could hold are refused before their members are read; those that fit never are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies import long_text
from rocketlake.protocol.bodies.long_text import at_once, check_room, encoding
from rocketlake.protocol.bodies.stats import TopicOffsets

NONE = TopicOffsets()


def rows(queues: int) -> Iterator[tuple[MessageQueue, TopicOffsets]]:
    return ((MessageQueue("T", "b", queue_id), NONE) for queue_id in range(queues))


@pytest.mark.parametrize("queues", [1, 9, 10, 11, 99, 100, 101, 1000, 1234])
def test_what_fits_is_not_refused_and_the_guess_is_near(monkeypatch: pytest.MonkeyPatch, queues: int) -> None:
    table = (queues, (MessageQueue("T", "b", 0), NONE))
    size = sum(map(len, at_once(encoding(rows(queues)))))
    monkeypatch.setattr(long_text, "_BYTES_MAX", size)
    check_room(table)
    monkeypatch.setattr(long_text, "_BYTES_MAX", size - queues - 2)  # a colon each, and the braces
    with pytest.raises(UsageError, match="no frame holds it"):
        check_room(table)


def test_tables_of_one_answer_are_counted_together() -> None:
    table = (65_536, (MessageQueue("T", "b", 0), NONE))
    check_room(table, table)
    with pytest.raises(UsageError, match="no frame holds it"):
        check_room(table, table, table)
