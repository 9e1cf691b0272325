"""The place of a message as a text, broker/queue@offset.

Owns        this form.
Must not know   how messages are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketlake.model.message import StoredMessage

__all__ = ["parse_place", "place_of"]


def place_of(message: StoredMessage) -> str:
    """broker/queue@offset."""
    return f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"


def parse_place(text: str) -> tuple[str, int, int]:
    """(broker, queue id, offset). UsageError for another text."""
    from rocketlake.base.errors import UsageError

    before, _, offset = text.rpartition("@")
    broker, _, queue = before.rpartition("/")
    if not (broker and queue.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{text!r} is no place of a message", hint="write broker-a/0@17")
    return broker, int(queue), int(offset)
