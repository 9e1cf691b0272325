"""One table of the master, as its slave takes it over.

Owns        which answers are believed; the swap.
Must not know   requests, when a copy is made, what the table means.

An answer that would empty a table deletes nothing. Of topics and groups it is damaged: a master always has its built-in
ones. Offsets and progress may be empty on a master that has just begun; what this slave has of them stays.
"""

from __future__ import annotations

from typing import Protocol

from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import JsonError, parse
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.message_store import MessageStore

__all__ = ["Copied", "CopiedTable", "DeletedTopics"]

_BYTES_MAX = 16 * 1024 * 1024
"""A larger table does not fit into the frame that brings it."""


class Copied(Protocol):
    """Something that a slave copies."""

    name: str
    """As the master's editions call it."""
    code: RequestCode
    bytes_max: int

    def take(self, body: bytes) -> None:
        """Take over an answer of the master, in this turn of the loop. StoreError if it is not to be believed."""
        ...


class CopiedTable:
    """A table and its place in the master's answers."""

    def __init__(self, name: str, code: RequestCode, table: SavedTable, member: str, *, may_be_empty: bool) -> None:
        """`name`: as the master's editions call it. `member` of the answer has the entries."""
        self.name = name
        self.code = code
        self.bytes_max = _BYTES_MAX
        self._table = table
        self._member = member
        self._may_be_empty = may_be_empty
        self._last: tuple[bytes, int] | None = None

    def take(self, body: bytes) -> None:
        """Swap the contents, in this turn of the loop, for those of an answer of the master.

        StoreError if the answer is not to be believed; the table is as it was then.
        """
        if (body, self._table.edition) == self._last:
            return
        if not self._table.replace(body, filled=self._member) and not self._may_be_empty:
            raise StoreError(
                f"the master answers that it has no {self.name}: that is not believed, those of this slave stay",
                hint="look at the topics.json and subscriptionGroup.json of the master",
            )
        self._last = body, self._table.edition


class DeletedTopics:
    """The topics that the master has deleted, each with the end of its log then: their queues go on the slave, too.

    That a topic is missing in the master's table deletes none of its messages here.
    """

    def __init__(self, name: str, code: RequestCode, store: MessageStore) -> None:
        self.name = name
        self.code = code
        self.bytes_max = _BYTES_MAX
        self._store = store

    def take(self, body: bytes) -> None:
        """See Copied. The log of the slave reaches at least as far as the answer says."""
        try:
            ends = {str(topic): PhysicalOffset(int(end)) for topic, end in parse(body).items()}
        except (JsonError, AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"the master's list of deleted topics makes no sense: {error}") from error
        known = self._store.deletions.topics
        for topic, end in ends.items():
            if known.get(topic, 0) < end:
                self._store.delete_topic_below(topic, end)
