"""Append records as another store has written them: a replica does so with the bytes of its master.

Owns        the checks of such bytes before one of them is appended, where files end in them.
Must not know   links to a master, frames, epochs; how queues and index are built.

Records come in order, without a gap. A blank that closes a file comes as its eight bytes at the end of the
chunk, or with all bytes up to the end of the file; the bytes behind it belong into the next file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketlake.codec.record_layout import BLANK_BYTES
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.commit_log import RECORD_HEAD_BYTES, AppendFailed, CommitLog, record_bytes
from rocketlake.store.consume_queue.table import BadQueueName, ConsumeQueueTable
from rocketlake.store.dispatch import Dispatch
from rocketlake.store.dispatch_scan import BLANK, END, scan
from rocketlake.store.raw_scan import scan_raw
from rocketlake.store.results import PutStatus

if TYPE_CHECKING:
    from rocketlake.store.raw_scan import RawRecords

__all__ = ["RawAppend"]

_OTHER_LENGTH = "so the files of the other log have another length"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Records of one file, and whether its blank follows them."""

    data: memoryview
    runs: Sequence[RawRecords]
    is_closed: bool


class RawAppend:
    """Raw records of one store."""

    def __init__(self, log: CommitLog, queues: ConsumeQueueTable, dispatch: Dispatch, delays_ms: Sequence[int]) -> None:
        self._log = log
        self._queues = queues
        self._dispatch = dispatch
        self._delays_ms = delays_ms

    def append(
        self,
        data: bytes | bytearray | memoryview,
        offset: PhysicalOffset,
        *,
        readable: bool,
        check_crc: bool,
        is_whole: bool = True,
    ) -> PhysicalOffset:
        """Append the records in `data`, which start at `offset`, the end of this log; returns the new end.

        `readable`: they may be dispatched at once. `check_crc`: the checksum of each body is worked out. `is_whole`
        False: `data` is a part of a stream and may end in a record or a blank; that part is left to the caller.
        Raises AppendFailed: nothing was appended, or (when the disk refuses) only the records before the new end.
        """
        end = offset
        for piece in self._pieces(memoryview(data).cast("B"), offset, check_crc, is_whole):
            if piece.runs:
                self._log.append_raw(piece.data, end, piece.runs[-1].store_ms)
                for run in piece.runs:
                    self._appended(run, piece.data[run.physical_offset - end :], readable)
                end += len(piece.data)
            if piece.is_closed:
                self._log.close_raw(end)
                end = self._log.next_file_start(end)
        return end

    def _appended(self, run: RawRecords, data: memoryview, readable: bool) -> None:
        """Have records dispatched together; `data` begins with their bytes."""
        try:
            run.find_queues(self._queues.find_or_make)
        except BadQueueName:  # a log from elsewhere; each record has its own fate then
            for entry in scan(data[: run.size], run.physical_offset, False, self._delays_ms)[0]:
                self._dispatch.appended(entry, readable=readable)
        else:
            self._dispatch.appended_run(run, readable=readable)

    def _pieces(self, data: memoryview, offset: PhysicalOffset, check_crc: bool, is_whole: bool) -> list[_Piece]:
        pieces: list[_Piece] = []
        position, end = 0, offset
        while position < len(data):
            room = self._log.next_file_start(end) - end
            runs, taken, status = scan_raw(data[position : position + room], end, check_crc, self._delays_ms)
            records = data[position : position + taken]
            position, end = position + taken, end + taken
            goes_on = not is_whole and len(data) - position < room - taken
            if goes_on and status in (END, BLANK):
                if status == BLANK:
                    self._check_blank(data[position:], room - taken, end)
                pieces.append(_Piece(records, runs, False))
                break
            is_closed = status == BLANK
            if is_closed:
                position += self._blank_bytes(data[position:], room - taken, end)
                end += room - taken
            elif position < len(data):
                head = data[position : position + RECORD_HEAD_BYTES]
                if record_bytes(head, end) > room - taken:
                    raise _refused(f"the record at {end} goes beyond its file, {_OTHER_LENGTH}", end)
                raise _refused(f"no whole, sound record starts at {end}", end)
            pieces.append(_Piece(records, runs, is_closed))
        return pieces

    def _check_blank(self, data: memoryview, room: int, offset: PhysicalOffset) -> None:
        if int.from_bytes(data[:4], "big") != room:
            raise _refused(f"the blank at {offset} does not end with its file, {_OTHER_LENGTH}", offset)

    def _blank_bytes(self, data: memoryview, room: int, offset: PhysicalOffset) -> int:
        """How many bytes of the chunk belong to the blank; `room` is left of its file."""
        self._check_blank(data, room, offset)
        if len(data) == BLANK_BYTES:
            return BLANK_BYTES
        if len(data) < room:
            raise _refused(f"the blank at {offset} is cut off", offset)
        return room


def _refused(what: str, offset: PhysicalOffset) -> AppendFailed:
    return AppendFailed(
        PutStatus.MESSAGE_ILLEGAL,
        f"raw records are refused: {what}",
        offset=offset,
        hint="see that both stores have the same mappedFileSizeCommitLog, then follow from the end of this log on",
    )
