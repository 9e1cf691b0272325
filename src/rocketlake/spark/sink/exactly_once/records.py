"""The records of the decision topic: what was decided about a batch, and the lists of its half messages.

Owns        their content and bytes.
Must not know   where they lie, how they are read and written, asyncio.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from rocketlake.base.errors import ProtocolError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PLACE", "Half", "HalfList", "ListPlace", "Record", "attempt_of", "decode_list", "decode_record", "encode"]

PLACE = np.dtype([("row", "<u4"), ("target", "<u2"), ("log", "<u8"), ("half", "<u8")])
"""One half message: its number in the task, its target among those of the list, its places in the log and in the half
topic."""
ListPlace = tuple[int, int]
"""(queue id, queue offset) of a list in the decision topic."""
_DAMAGED = "look at this message: only the sink writes to a decision topic, it needs one of its own"


@dataclass(frozen=True, slots=True)
class Half:
    """One half message, as the request that ends it names it."""

    topic: str
    broker_name: str
    unique_key: str
    log_offset: int
    half_offset: int


class HalfList(msgspec.Struct, frozen=True):
    """Half messages of one attempt of a task, in the order of their rows. `born_ms`: when the first one was made."""

    group: str
    prefix: str
    born_ms: int
    targets: list[tuple[str, str]]
    """(topic, broker name)"""
    places: bytes
    """PLACE by PLACE, compressed."""

    @classmethod
    def of(
        cls, group: str, prefix: str, born_ms: int, targets: Sequence[tuple[str, str]], places: NDArray[np.void]
    ) -> HalfList:
        """From an array of PLACE."""
        return cls(group, prefix, born_ms, list(targets), zlib.compress(places.tobytes(), 1))

    def halves(self) -> Iterator[Half]:
        """The half messages."""
        for row, target, log_offset, half_offset in np.frombuffer(zlib.decompress(self.places), PLACE).tolist():
            topic, broker_name = self.targets[target]
            yield Half(topic, broker_name, f"{self.prefix}{row:08X}", log_offset, half_offset)


class Record(msgspec.Struct, frozen=True):
    """One step of a batch. For one batch the first `commit` of an attempt without an earlier `abort` is the decision.

    `seen`: the end of the decisions when its writer had read them. No record of a later batch lay below.
    """

    kind: Literal["commit", "abort", "done"]
    query: str
    batch: int
    attempt: str
    seen: int
    rows: int = 0
    """Rows of the input, for attempts that find this decision."""
    messages: int = 0
    lists: list[ListPlace] = msgspec.field(default_factory=list)


def attempt_of(lists: Iterable[ListPlace]) -> str:
    """The name of an attempt to write a batch: no two have a list in common."""
    return blake2b(repr(sorted(lists)).encode(), digest_size=8).hexdigest()


def encode(record: Record | HalfList) -> bytes:
    """The body of a message. Decisions are JSON: `rocketlake look` shows them."""
    return msgspec.json.encode(record) if isinstance(record, Record) else msgspec.msgpack.encode(record)


def decode_record(body: bytes, where: str) -> Record:
    """Raises ProtocolError for another message."""
    try:
        return msgspec.json.decode(body, type=Record)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"a message is no decision of a sink: {error}", where=where, hint=_DAMAGED) from None


def decode_list(body: bytes, where: str) -> HalfList:
    """Raises ProtocolError for another message."""
    try:
        return msgspec.msgpack.decode(body, type=HalfList)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"a message is no list of half messages: {error}", where=where, hint=_DAMAGED) from None
