"""A long table of topics, read in slices.

Owns        the place of the table in the text, the places where it can be cut.
Must not know   the members around the table.

No JSON reader stops in the middle, so the text is cut between two topics, and each slice is read as an object of its
own. The first slice stays in the text: if the reader of the rest does not find it at its place, the cut was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from rocketlake.protocol.bodies.body import BodyError

__all__ = ["WHOLE_BYTES_MAX", "cutting"]

WHOLE_BYTES_MAX: Final = 1024 * 1024
"""A larger body that cannot be cut is refused: it would be read in one go, and hold up the loop for that long."""
_SLICE_BYTES: Final = 64 * 1024
_TOPIC_BYTES_MAX: Final = 256 * 1024
_TABLE_WITHIN: Final = 64 * 1024
"""The table starts within so many bytes: before it are its version and the filter servers only."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'[^{}"]++|' + _STRING
_INNER = rb"\{(?:" + _FLAT + rb")*+\}"
_OBJECT = rb"\{(?:" + _FLAT + rb"|" + _INNER + rb")*+\}"
_TABLE: Final = re.compile(rb'"topicConfigTable"\s*:\s*\{')
_TOPIC: Final = re.compile(
    rb"\s*+" + _STRING + rb"\s*+:\s*+(?:null|" + _OBJECT + rb")\s*+(?:(,)|(?=\}))",
    re.DOTALL,
)


def cutting(text: bytes, name: str) -> Generator[None, None, tuple[bytes, bytes, list[bytes]] | None]:
    """The text with the first slice of its table only, that slice, and the others, each an object; None: read it whole.

    BodyError when it is too large for that.
    """
    slices = None
    found = _TABLE.search(text, 0, _TABLE_WITHIN) if len(text) > 2 * _SLICE_BYTES else None
    if found is not None:
        slices = yield from _slices(text, found.end())
    if slices is None:
        if len(text) > WHOLE_BYTES_MAX:
            raise BodyError(
                f"{name}: with {len(text)} bytes the body is too large to be read in one go, and no table of topics"
                " is found at which it could be cut",
                hint="send standard JSON with the topics in topicConfigTable, or less at a time",
            )
        return None
    first, *others = slices
    rest = text[: first[1]] + text[slices[-1][1] :]
    return rest, _object(text, first), [_object(text, each) for each in others]


def _slices(text: bytes, begin: int) -> Generator[None, None, list[tuple[int, int]] | None]:
    """The start and end of each slice; None when one topic is not of the plain form."""
    slices = []
    position, is_last = begin, False
    while not is_last:
        found = _TOPIC.match(text, position, position + _TOPIC_BYTES_MAX)
        if found is None:
            return None
        position, is_last = found.end(), found[1] is None
        if is_last or position - begin >= _SLICE_BYTES:
            slices.append((begin, position if is_last else found.start(1)))
            begin = position
            yield
    return slices


def _object(text: bytes, span: tuple[int, int]) -> bytes:
    return b"{%b}" % text[span[0] : span[1]]
