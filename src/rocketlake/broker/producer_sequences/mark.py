"""The mark of a batch that takes part in the check: who sent it, and which of its messages it holds.

Owns        the text of property __RL_SEQ.
Must not know   what was stored before.

`Q/B/P/S/L`: query id, batch id, partition id, sequence number of the first message, layout. The messages of a batch
have the numbers S, S+1, ...; they count from 0 for each (Q, B, P) and queue. The layout is a digest of how the producer
spreads rows over queues: with another one the same number means another row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocketlake.base.errors import UsageError

__all__ = ["SequenceMark", "parse_mark"]

_MARK = re.compile(r"([\w.-]{1,100})/(\d{1,18})/(\d{1,9})/(\d{1,18})/(\w{1,32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SequenceMark:
    """A read mark. `producer` is `Q/P`."""

    producer: str
    batch: int
    sequence: int
    layout: str

    def later(self, count: int) -> SequenceMark:
        """The mark of what is left when the first `count` messages are cut off."""
        return SequenceMark(self.producer, self.batch, self.sequence + count, self.layout)

    def to_text(self) -> str:
        """As the property holds it."""
        query, _, partition = self.producer.rpartition("/")
        return f"{query}/{self.batch}/{partition}/{self.sequence}/{self.layout}"


def parse_mark(text: str) -> SequenceMark:
    """UsageError for a text that is no mark."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise UsageError(
            f"property __RL_SEQ is {text[:100]!r}",
            hint="write it as queryId/batchId/partitionId/sequence/layout",
        )
    query, batch, partition, sequence, layout = found.groups()
    return SequenceMark(f"{query}/{int(partition)}", int(batch), int(sequence), layout)
