"""The mark of a batch that takes part in the check: its producer, the numbers and the digests of its messages.

Owns        the text of property __RL_SEQ; the cure for other rows under one mark, which broker and sink both tell.
Must not know   which messages are stored.

`Q/B/P/S/L/N/X/Y`: query id, batch id, partition id, sequence number of the first message, layout, number of messages,
digest before the first message, digest behind the last. The messages of a batch have the numbers S, S+1, ...; they
count from 0 for each (Q, B, P) and queue. The layout is a digest of the way in which the producer spreads rows over
queues: with another layout the same number means another row. X and Y are the CRC-32 of the batch entries of this
(Q, B, P) and queue, from number 0 on: X of the entries below S, Y of the entries below S+N. They do not depend on the
cuts between requests, so a batch that is sent again can be compared from any number on.

Older sinks wrote `Q/B/P/S/L`. Such a mark is accepted as it was then: no digest is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocketlake.base.errors import UsageError

__all__ = ["OTHER_ROWS_HINT", "SequenceMark", "parse_mark"]

_MARK = re.compile(
    r"([\w.-]{1,100})/(\d{1,18})/(\d{1,9})/(\d{1,18})/(\w{1,32})(?:/(\d{1,9})/([0-9a-f]{8})/([0-9a-f]{8}))?", re.ASCII
)

OTHER_ROWS_HINT = (
    "until this batch is through, give the query the conditions, columns and options (minPartitions and the like) it"
    " had when the batch was begun; or write the batch with 'at_least_once', what is stored of it is there twice then"
)


@dataclass(frozen=True, slots=True)
class SequenceMark:
    """A read mark. `producer` is `Q/P`; a mark without digests has `count` 0."""

    producer: str
    batch: int
    sequence: int
    layout: str
    count: int = 0
    before: int | None = None
    after: int | None = None

    @property
    def query(self) -> str:
        """The query of which the producer is a task."""
        return self.producer.rpartition("/")[0]

    def later(self, count: int, digest: int | None) -> SequenceMark:
        """The mark without the first `count` messages; `digest`: of the messages before the rest."""
        sequence = self.sequence + count
        if self.before is None:
            return SequenceMark(self.producer, self.batch, sequence, self.layout)
        return SequenceMark(self.producer, self.batch, sequence, self.layout, self.count - count, digest, self.after)

    def to_text(self) -> str:
        """The text of the property."""
        query, _, partition = self.producer.rpartition("/")
        text = f"{query}/{self.batch}/{partition}/{self.sequence}/{self.layout}"
        return text if self.before is None else f"{text}/{self.count}/{self.before:08x}/{self.after:08x}"


def parse_mark(text: str) -> SequenceMark:
    """UsageError for a text that is no mark."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise UsageError(
            f"property __RL_SEQ is {text[:100]!r}",
            hint="write it as queryId/batchId/partitionId/sequence/layout/count/digestBefore/digestAfter",
        )
    query, batch, partition, sequence, layout, count, before, after = found.groups()
    producer = f"{query}/{int(partition)}"
    if count is None:
        return SequenceMark(producer, int(batch), int(sequence), layout)
    return SequenceMark(producer, int(batch), int(sequence), layout, int(count), int(before, 16), int(after, 16))
