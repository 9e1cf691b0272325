"""The members of one JSON object of a table's file, each with its text made once.

Owns        which texts are still valid, so that a change costs one line and not the whole table.
Must not know   what a line holds, when a table is saved.

Lines stand in blocks, in the order in which they were added. A change makes the text of its block anew. The text is
handed out block by block, so that the loop can do other work between two blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

__all__ = ["SavedLine", "SavedLines"]

_BLOCK_LINES = 128
"""Lines of a block: to make their texts anew takes one to two milliseconds."""
_LONG_LINE = 16_384
"""A line with more characters, of a topic with thousands of queues, is made in a step of its own."""
_BETWEEN = ",\n\t\t"


class _Block:
    __slots__ = ("_text", "lines")

    def __init__(self) -> None:
        self.lines: dict[SavedLine, None] = {}
        self._text: str | None = None

    def touch(self) -> None:
        self._text = None

    @property
    def is_stale(self) -> bool:
        return self._text is None

    def text(self) -> str:
        if self._text is None:
            self._text = _BETWEEN.join([line.text() for line in self.lines])
        return self._text


class SavedLine(ABC):
    """One member: key, colon, value."""

    __slots__ = ("_text", "block")

    def __init__(self) -> None:
        self.block: _Block | None = None
        """Where the line stands; set by `SavedLines`."""
        self._text: str | None = None

    @abstractmethod
    def make_text(self) -> str:
        """The text as of now."""

    def touch(self) -> None:
        """The contents of the line have changed."""
        self._text = None
        if self.block is not None:
            self.block.touch()

    def text(self) -> str:
        """The text; the last one if the line has not changed since."""
        if self._text is None:
            self._text = self.make_text()
        return self._text


class SavedLines:
    """The lines of one object."""

    def __init__(self) -> None:
        self._blocks: dict[_Block, None] = {}
        self._last = _Block()
        self._together = _Block()

    def add(self, line: SavedLine, *, together: bool = False) -> None:
        """Put a line behind all others. `together`: the texts of these few lines are made in one moment."""
        if len(self._last.lines) >= _BLOCK_LINES:
            self._last = _Block()
        block = self._together if together else self._last
        self._blocks[block] = None
        block.lines[line] = None
        line.block = block
        line.touch()

    def remove(self, line: SavedLine) -> None:
        """Take a line out."""
        block = line.block
        if block is None:
            return
        line.block = None
        del block.lines[line]
        block.touch()
        if not block.lines:
            del self._blocks[block]

    def parts(self) -> Iterator[str]:
        """The text of the object, block by block. Each block is as of the moment in which it is made."""
        start = "{\n\t\t"
        separator = start
        for block in list(self._blocks):
            if block.is_stale and block is not self._together:
                for line in list(block.lines):
                    if len(line.text()) > _LONG_LINE:
                        yield ""
            text = block.text()
            if text:
                yield separator
                yield text  # alone, because a join would copy it: ten thousand topics are three megabytes
                separator = _BETWEEN
        yield "{}" if separator is start else "\n\t}"
