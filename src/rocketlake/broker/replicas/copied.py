"""One table of the master, as its slave takes it over.

Owns        which answers are believed; the swap.
Must not know   requests, when a copy is made, what the table means.

An answer that would empty a table deletes nothing. Of topics and groups it is damaged: a master always has its built-in
ones. Offsets and progress may be empty on a master that has just begun; what this slave has of them stays.
"""

from __future__ import annotations

from rocketlake.base.errors import StoreError
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.protocol.request_code import RequestCode

__all__ = ["CopiedTable"]

_BYTES_MAX = 16 * 1024 * 1024
"""A larger table does not fit into the frame that brings it."""


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
