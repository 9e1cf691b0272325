"""The log cut into the bodies of frames, in place.

Owns        where a frame ends: in one file, between two records if it can be.
Must not know   headers, connections, how many bytes may be sent now.

The bytes are slices of the mapped files. A read on the loop never waits for the disk: NotInMemory says what to bring.
"""

from __future__ import annotations

from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.commit_log import RECORD_HEAD_BYTES, record_bytes
from rocketlake.store.message_store import MessageStore

__all__ = ["WINDOW_BYTES", "Outgoing"]

WINDOW_BYTES = 1024 * 1024
"""So much is looked at together: a worker brings it in one trip if it is not in memory."""
_NOWHERE = PhysicalOffset(-1)
_ZEROS = memoryview(bytes(64 * 1024))
_NOTHING = memoryview(b"")


class Outgoing:
    """The bodies for one slave. `cut` is asked for one after the other."""

    def __init__(self, store: MessageStore, batch_bytes: int) -> None:
        self._store = store
        self._batch_bytes = batch_bytes
        self._window = _NOTHING
        self._window_at = _NOWHERE
        self._is_bounded = True
        """The window ends where the readable bytes of its file end, so between two records."""
        self._split_end = _NOWHERE
        """Where the record ends that is being sent in pieces."""

    def cut(self, offset: PhysicalOffset, limit: PhysicalOffset | None = None) -> memoryview:
        """The body of the frame at `offset`, which ends at `limit` at the latest; empty at the end of the log.

        Raises NotInMemory, and StoreError for an offset that the log does not hold any more.
        """
        start = offset - self._window_at
        if not 0 <= start < len(self._window) or (len(self._window) - start < self._batch_bytes and self._stops_short):
            self._look(offset)
            start = 0
        window = self._window[start:]
        if limit is not None:
            window = window[: limit - offset]
        if len(window) <= self._batch_bytes and (not self._stops_short or offset + len(window) == limit):
            return window
        return window[: self._size(window, offset)]

    @property
    def _stops_short(self) -> bool:
        return not self._is_bounded

    def _look(self, offset: PhysicalOffset) -> None:
        """Take the bytes from `offset` on as the window."""
        self._window, self._window_at, self._is_bounded = _NOTHING, offset, True
        log = self._store.log
        mapped = log.list.find(offset)
        if mapped is None:
            if offset != log.max_offset:
                raise StoreError(f"the log begins at {log.min_offset}, bytes at {offset} are gone", offset=offset)
            return
        position = offset - mapped.start
        readable = mapped.readable - position
        if readable <= 0:  # the rest of a file that was closed: zeros, which need not be read
            self._window = _ZEROS[: mapped.committed - position]
            return
        with self._store.disk_wait.none():
            self._window = log.view(offset, min(readable, WINDOW_BYTES)) or _NOTHING
        self._is_bounded = readable <= WINDOW_BYTES

    def _size(self, window: memoryview, offset: PhysicalOffset) -> int:
        """How many of these bytes go into one frame."""
        most = min(self._batch_bytes, len(window))
        if offset < self._split_end:
            return min(most, self._split_end - offset)
        size = 0
        while size < most:
            record = record_bytes(window[size : size + RECORD_HEAD_BYTES], offset + size)
            if not record or size + record > most:
                break
            size += record
        if size:
            return size
        # A record that is larger than a frame, or a slave that starts inside a record: any cut will do.
        self._split_end = offset + record
        return most
