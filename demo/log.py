"""The messages on the broker's disk, read from its commit log files without the broker.

Owns        the count and checksum of a topic's messages, as one witness of the demo's check.
Must not know   Spark, whose side computes the same from the table (lake.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from rocketlake.codec.record import iter_records
from rocketlake.model.message import StoredMessage


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Messages, and the sum of crc32("queue:offset" + body): the order does not matter, every byte does."""

    messages: int
    checksum: int


def log_facts(store: Path, topic: str) -> LogFacts:
    """Walk the commit log under `store`."""
    messages = checksum = 0
    for message in _records(store):
        if message.topic == topic:
            messages += 1
            checksum += crc32(f"{message.queue_id}:{message.queue_offset}".encode() + message.body)
    return LogFacts(messages, checksum)


def _records(store: Path) -> Iterator[StoredMessage]:
    for file in sorted(store.glob("**/commitlog/*")):
        yield from iter_records(file.read_bytes())
