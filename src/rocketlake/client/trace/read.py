"""Trace records read back: those of one message, out of the messages of the trace topic.

Owns        which records of a trace message belong to a message, the client that sent them.
Must not know   how messages are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketlake.client.trace.format import Record, decode
from rocketlake.model.message import StoredMessage

__all__ = ["Told", "told_of"]


@dataclass(frozen=True, slots=True)
class Told:
    """A record, and the address of the client that sent it."""

    record: Record
    client: str


def told_of(message_id: str, traces: Iterable[StoredMessage]) -> list[Told]:
    """The records of one message."""
    return [
        Told(record, trace.born_host[0])
        for trace in traces
        for record in decode(trace.body.decode("utf-8", "replace"))
        if record.message_id == message_id
    ]
