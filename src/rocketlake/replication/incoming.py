"""Bytes from the master, put together to whole records and appended.

Owns        the part of a record that has come so far, and its limit; the place of the next byte.
Must not know   connections, bytes of frames, reports.

Frames may split records: the rest of one is kept here until it is whole, so the own log always ends between records.
"""

from __future__ import annotations

from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["Incoming"]


class Incoming:
    """The bytes of one connection; a new connection begins anew at the end of the own log."""

    def __init__(self, store: MessageStore, record_bytes_max: int) -> None:
        self.position = store.max_physical_offset
        """Offset of the next byte."""
        self._store = store
        self._record_bytes_max = record_bytes_max
        self._parts: list[bytes | memoryview] = []

    @property
    def end(self) -> PhysicalOffset:
        """Where the own log ends."""
        return self._store.max_physical_offset

    def expect(self, offset: PhysicalOffset) -> None:
        """The next bytes are of `offset`. Raises ProtocolError, StoreError: they do not fit to what is there."""
        if offset == self.position:
            return
        if self.position:
            raise ProtocolError(
                f"it sends the log from {offset} on, the own log goes on at {self.position}",
                hint="see that both belong to one group; a slave that has records of its own must be filled anew",
            )
        if offset % self._store.log.file_size:
            raise StoreError(
                f"the log of the master begins at {offset}, where no file of {self._store.log.file_size} bytes begins",
                hint="give both brokers the same mappedFileSizeCommitLog",
            )
        self.position = offset  # a log without a byte may begin where any file of the master's begins

    def add(self, data: bytes | memoryview) -> None:
        """Keep the next bytes."""
        if data:
            self._parts.append(data)
            self.position += len(data)

    def append(self) -> PhysicalOffset:
        """Append the whole records that are there; returns the end of the own log. Raises StoreError."""
        if not self._parts:
            return self.end
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        start = self.position - len(data)
        self._parts.clear()
        end = self._store.append_raw(data, start, is_whole=False)
        if rest := data[end - start :]:
            if len(rest) > self._record_bytes_max:
                raise StoreError(
                    f"the record at {end} has more than {self._record_bytes_max} bytes",
                    offset=end,
                    hint="set maxMessageSize to that of the master",
                )
            self._parts.append(bytes(rest))
        return end
