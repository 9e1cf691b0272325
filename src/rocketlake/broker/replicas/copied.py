"""One table of the master, as its slave takes it over.

Owns        which answers are believed; the swap, and which entries of a large table it is about.
Must not know   requests, when a copy is made, what the table means.

An answer that would empty a table deletes nothing. Of topics and groups it is damaged: a master always has its built-in
ones. Offsets and progress may be empty on a master that has just begun; what this slave has of them stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any, Protocol

from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import JsonError, parse
from rocketlake.broker.tables.entry_table import Entries, EntryTable, cut_entries
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.timer.checkpoint import TimerCheckpoint

__all__ = ["Copied", "CopiedTable", "DeletedTopics", "TimerProgress"]

_BYTES_MAX = 16 * 1024 * 1024
"""A larger table does not fit into the frame that brings it."""
_IN_STEPS_BYTES = 100_000
"""A smaller table is read and swapped in some ten milliseconds at most, in one step."""


class Copied(Protocol):
    """Something that a slave copies."""

    name: str
    """As the master's editions call it."""
    code: RequestCode
    bytes_max: int
    absent: Collection[int]
    """Codes by which a master says that it has nothing of the kind."""

    def take(self, body: bytes) -> Iterator[None]:
        """Take over an answer of the master, in short steps. StoreError if it is not to be believed."""
        ...


class CopiedTable:
    """A table and its place in the master's answers."""

    def __init__(
        self,
        name: str,
        code: RequestCode,
        table: SavedTable,
        member: str,
        *,
        may_be_empty: bool,
        absent: Collection[int] = (),
    ) -> None:
        """`name`: as the master's editions call it. `member` of the answer has the entries."""
        self.name = name
        self.code = code
        self.bytes_max = _BYTES_MAX
        self.absent = absent
        self._table = table
        self._member = member
        self._may_be_empty = may_be_empty
        self._last: tuple[bytes, int] | None = None
        self._texts: Mapping[str, bytes] = {}
        """The entries of the last answer, if it was a large one."""

    def take(self, body: bytes) -> Iterator[None]:
        """Swap the contents for those of an answer of the master: a small table in one step.

        StoreError if the answer is not to be believed; the table is as it was then.
        """
        table, last = self._table, self._last
        if (body, table.edition) == last:
            return
        self._last = None
        known = self._texts if last is not None and last[1] == table.edition else {}
        is_large = len(body) > _IN_STEPS_BYTES and isinstance(table, EntryTable)
        entries = cut_entries(body, self._member) if is_large else None
        yield
        if entries is not None and entries.texts and isinstance(table, EntryTable):
            changed = yield from self._read(entries, known)
            yield from table.change(entries.rest, changed, entries.texts.keys())
            self._texts = entries.texts
        elif table.replace(body, filled=self._member) or self._may_be_empty:
            self._texts = {}
        else:
            raise StoreError(
                f"the master answers that it has no {self.name}: that is not believed, those of this slave stay",
                hint="look at the topics.json and subscriptionGroup.json of the master",
            )
        self._last = body, table.edition

    def _read(self, entries: Entries, known: Mapping[str, bytes]) -> Generator[None, None, dict[str, Any]]:
        """The entries that are other ones than before."""
        changed = {}
        for name, text in entries.texts.items():
            if known.get(name) != text:
                try:
                    changed[name] = parse(text)
                except JsonError as error:
                    raise StoreError(f"the master's table of {self.name} makes no sense: {name}: {error}") from error
            yield
        return changed


class TimerProgress:
    """How far the master's timer is."""

    def __init__(self, name: str, code: RequestCode, follow: Callable[[TimerCheckpoint], object]) -> None:
        """`follow` is told of it."""
        self.name = name
        self.code = code
        self.bytes_max = _BYTES_MAX
        # Apache's with timerWheelEnable=false, and brokers before 5.0.
        self.absent: Collection[int] = frozenset((ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
        self._follow = follow

    def take(self, body: bytes) -> Iterator[None]:
        """See Copied."""
        try:
            told = TimerCheckpoint.of_bytes(body)
        except ValueError as error:
            raise StoreError(f"the master's progress of its timer makes no sense: {error}") from error
        self._follow(told)
        yield


class DeletedTopics:
    """The topics that the master has deleted, each with the end of its log then: their queues go on the slave, too.

    That a topic is missing in the master's table deletes none of its messages here.
    """

    def __init__(self, name: str, code: RequestCode, store: MessageStore) -> None:
        self.name = name
        self.code = code
        self.bytes_max = _BYTES_MAX
        self.absent: Collection[int] = frozenset((ResponseCode.REQUEST_CODE_NOT_SUPPORTED,))
        self._store = store

    def take(self, body: bytes) -> Iterator[None]:
        """See Copied. The log of the slave reaches at least as far as the answer says."""
        try:
            ends = {str(topic): PhysicalOffset(int(end)) for topic, end in parse(body).items()}
        except (JsonError, AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"the master's list of deleted topics makes no sense: {error}") from error
        known = self._store.deletions.topics
        for topic, end in ends.items():
            if known.get(topic, 0) < end:
                self._store.delete_topic_below(topic, end)
                yield
