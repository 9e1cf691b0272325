"""A table of entries by name, which takes the text of another one entry by entry.

Owns        the cut of a text into entries that are not read yet, the order of a change: first all entries are read and
            checked, then they are taken.
Must not know   what an entry means, where the text comes from.

A slave with ten thousand topics gets the whole table for each new topic. It reads those entries whose text is another
one than the last time, and gives other work a turn between any two of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.java.json_text import parse
from rocketlake.broker.tables.saved_table import SavedTable

__all__ = ["Entries", "EntryTable", "cut_entries"]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BEFORE_ENTRY = b'\n\t\t"'
_END_OF_ENTRIES = b"\n\t}"


@dataclass(frozen=True, slots=True)
class Entries:
    """A text in parts."""

    rest: Mapping[str, Any]
    """All members but the one that holds the entries."""
    texts: Mapping[str, bytes]
    """The JSON of each entry by its name."""


class EntryTable(SavedTable):
    """A table that can be changed entry by entry."""

    entries_in: str
    """The member of the text that holds the entries."""

    def change(self, rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]) -> Iterator[None]:
        """As `replace`, in short steps. `entries`: those that may be other ones than before; `names`: of all there are.

        StoreError from a step if an entry makes no sense; the table is as it was then.
        """
        try:
            version = self._version_in(rest.get("dataVersion") or {})
            for name in self._changing(rest, entries, names):
                if name:
                    self.changed = True
                    self._tell(name)
                yield
        except (UsageError, ValueError, TypeError, AttributeError, KeyError) as error:
            hint = "ask the master for its table again"
            raise StoreError(f"{self.holds} cannot be read: {error}", path=str(self.path), hint=hint) from error
        self.data_version = version
        self.changed = True
        self._changes += 1

    @abstractmethod
    def _changing(
        self, rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]
    ) -> Iterator[str | None]:
        """The steps of a change: None while entries are read, then the name of each entry that was changed."""

    def _tell(self, name: str) -> None:
        """An entry was changed or has gone."""

    def _take(self, wire: dict[str, Any]) -> None:
        entries = wire.get(self.entries_in) or {}
        for _ in self._changing(wire, entries, entries.keys()):
            pass


def cut_entries(text: bytes, member: str) -> Entries | None:
    """The text in parts; None if it is neither standard JSON nor laid out as RocketMQ lays out its files.

    Nothing in an entry is looked at, but that a standard one is JSON.
    """
    try:
        whole = _members.decode(text)
        texts = _members.decode(whole.pop(member))
        return Entries(
            {name: parse(bytes(raw)) for name, raw in whole.items()}, {k: bytes(v) for k, v in texts.items()}
        )
    except (msgspec.MsgspecError, KeyError, ValueError):
        return _cut_lines(text, member)


def _cut_lines(text: bytes, member: str) -> Entries | None:
    """Of a text whose entries begin on lines of their own, as deep as no other line that begins with a quote."""
    before = b'\n\t"' + member.encode() + b'":{'
    start = text.find(before) + len(before)
    end = text.find(_END_OF_ENTRIES, start)
    head, *pieces = text[start:end].split(_BEFORE_ENTRY)
    if start < len(before) or end < 0 or head:
        return None
    try:
        rest = parse(text[:start] + text[end:])
        texts = {}
        for piece in pieces:
            name, _, value = piece.partition(b'":')
            texts[parse(b'"%b"' % name) if b"\\" in name else name.decode()] = value.rstrip(b",")
    except ValueError:
        return None
    return Entries(rest, texts)
