"""The text of a body that may be long, written in steps and kept in pieces.

Owns        writing a struct, a map or a list of tens of thousands as JSON in steps; the longest text.
Must not know   single bodies.

The handler lets other requests in between the steps of `encoding`. An iterator may give a `Wait` where its next member
is not there yet: that is a step, too. The pieces go to the peer as they are: a text of ten megabytes would be copied
and freed in one go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from rocketlake.base.callbacks import Step, Wait
from rocketlake.base.errors import UsageError
from rocketlake.base.java import json_text
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.body import to_json
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.limits import FRAME_BYTES_MAX

__all__ = ["Each", "at_once", "check_room", "encoding", "queue_json"]

T = TypeVar("T")

_PIECE_BYTES: Final = 64 * 1024
_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
"""The largest body that fits a frame beside its header."""
_SHORT: Final = 32
"""A struct whose lists and maps have no more members than this is written in one step."""


def encoding(value: Any, *, bare_keys: bool = False) -> Generator[Step, None, list[Buffer]]:
    """The JSON text of a body, one member a step; None members are left out. UsageError when no frame could hold it.

    A map may have message queues as keys. An iterator of (key, value) becomes a map, and Each of an iterator a list:
    neither is built in memory.
    `bare_keys`: number keys stand without quotes.
    """
    text = _LongText(bare_keys)
    yield from _write(text, value)
    return text.pieces()


def check_room(*tables: tuple[int, Sequence[Any]]) -> None:
    """UsageError if no frame could hold these tables: known before the queues are read, whose texts would fill it.

    A table is the number of its queues, 0 to number - 1, and the shortest member: that of queue 0, with least figures.
    """
    least = 0
    for queues, member in tables:
        digits = queues + sum(max(0, queues - 10**power) for power in range(1, 8))  # of all numbers of queues
        least += queues * (sum(map(len, map(_json, member)))) + digits
    if least > _BYTES_MAX:
        raise _too_long()


def _json(value: Any) -> bytes:
    return json_text.to_text(queue_json(value) if isinstance(value, MessageQueue) else to_json(value))


def _too_long() -> UsageError:
    return UsageError(
        f"the answer has more than {_BYTES_MAX} bytes, no frame holds it",
        hint="ask for one topic or one group at a time, or in pages",
    )


class Each:
    """The elements of an iterator, to be written as a list."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterator[Any]) -> None:
        self.elements = elements


def at_once(steps: Generator[Step, None, T]) -> T:
    """The result of work that is done in steps, none of which waits."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: T = end.value
            return outcome


def queue_json(queue: MessageQueue) -> dict[str, Any]:
    """A message queue as a plain JSON value."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


class _LongText:
    """Texts one behind the other."""

    def __init__(self, bare_keys: bool) -> None:
        self._bare_keys = bare_keys
        self._pieces: list[Buffer] = []
        self._texts: list[bytes] = []
        self._texts_bytes = 0
        self._bytes = 0

    def add(self, text: bytes) -> None:
        self._texts.append(text)
        self._texts_bytes += len(text)
        if self._texts_bytes >= _PIECE_BYTES:
            self._close_piece()

    def add_key(self, start: bytes, key: Any) -> None:
        """The key of a map or an object, behind `start`."""
        if isinstance(key, int) and self._bare_keys:
            name = b"%d" % key
        else:
            name = json_text.to_text(queue_json(key) if isinstance(key, MessageQueue) else str(key))
        self.add(start + name + b":")

    def pieces(self) -> list[Buffer]:
        self._close_piece()
        return self._pieces

    def _close_piece(self) -> None:
        self._bytes += self._texts_bytes
        if self._bytes > _BYTES_MAX:
            raise _too_long()
        self._pieces.append(b"".join(self._texts))
        self._texts.clear()
        self._texts_bytes = 0


def _write(text: _LongText, value: Any) -> Generator[Step, None, None]:
    if isinstance(value, msgspec.Struct):
        if _is_long(value):
            yield from _write_object(
                text, [(name, getattr(value, attribute)) for name, attribute in _names(type(value))]
            )
        else:
            text.add(json_text.to_text(to_json(value)))
            yield
    elif isinstance(value, Mapping):
        yield from _write_object(text, value.items())
    elif isinstance(value, Iterator):
        yield from _write_object(text, value)
    elif isinstance(value, list | tuple | Each):
        start = b"["
        for element in value.elements if isinstance(value, Each) else value:
            if element is not None:
                text.add(start)
                yield from _write(text, element)
                start = b","
        text.add(b"[]" if start == b"[" else b"]")
    else:
        text.add(json_text.to_text(value))
        yield


def _write_object(text: _LongText, members: Iterable[tuple[Any, Any] | Wait]) -> Generator[Step, None, None]:
    start = b"{"
    for item in members:
        if not isinstance(item, tuple):
            yield item
            continue
        key, member = item
        if member is not None:
            text.add_key(start, key)
            yield from _write(text, member)
            start = b","
    text.add(b"{}" if start == b"{" else b"}")


def _is_long(value: Any) -> bool:
    """True if a list or map in the value is long."""
    if isinstance(value, dict):
        return len(value) > _SHORT or any(map(_is_long, value.values()))
    if isinstance(value, list | tuple):
        return len(value) > _SHORT or any(map(_is_long, value))
    if isinstance(value, msgspec.Struct):
        return any(_is_long(getattr(value, attribute)) for _name, attribute in _names(type(value)))
    return False


@cache
def _names(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """(name on the wire, attribute) of each member."""
    return [(field.encode_name, field.name) for field in msgspec.structs.fields(kind)]
