"""A batch of thousands of messages, made ready for the log in steps and appended in one.

Owns        the records of such a batch without their places, giving them their places.
Must not know   its sender, where the log ends, how other requests are served between the steps.

A batch is one piece of the log and of its queue, so it cannot be appended in steps. All that takes long is done before:
when its place is known only three numbers of each record are left to be written.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Sequence
from typing import cast

from rocketlake.base.clock import Millis
from rocketlake.base.crc32 import crc32
from rocketlake.base.pure_import import has_kernel
from rocketlake.codec.record import encode_record
from rocketlake.codec.record_batch import BatchEntry
from rocketlake.codec.record_layout import BORN_HOST_AT, QUEUE_OFFSET_AT
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.put_checks import batch_item
from rocketlake.store.results import PutMessage, PutResult

__all__ = ["LargeBatch"]

_PLACES = struct.Struct(">qq")
_LONG = struct.Struct(">q")


class LargeBatch:
    """The records of one batch. `message` is the batch: the fields that its messages share."""

    def __init__(self, message: PutMessage) -> None:
        self.message = message
        self.records = bytearray()
        """All records back to back; after `number` as they lie in the log."""
        self._starts = array("q")
        self._topic = message.topic.encode()

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, entry: BatchEntry) -> PutResult | None:
        """Put one message behind the others; the answer for the whole batch if it cannot be stored. RecordError."""
        item = batch_item(entry, len(self._starts), self.message.properties)
        if isinstance(item, PutResult):
            return item
        flag, body, properties = item
        message = self.message
        self._starts.append(len(self.records))
        self.records += encode_record(
            self._topic,
            body,
            properties,
            queue_id=message.queue_id,
            flag=flag,
            queue_offset=0,
            physical_offset=0,
            sys_flag=message.sys_flag,
            born_ms=message.born_ms,
            born_host=message.born_host,
            store_ms=0,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=0,
            body_crc=crc32(body),
        )
        return None

    def number(self, queue_offset: QueueOffset, physical_offset: PhysicalOffset, store_ms: Millis) -> None:
        """The first record gets these offsets, the others those that follow; all get the store time."""
        store_ms_at = BORN_HOST_AT + len(self.message.born_host)
        if has_kernel("rocketlake.codec.record_run"):
            from rocketlake.codec import record_run

            places = queue_offset, physical_offset, store_ms
            record_run.number_records(self.records, self._starts, QUEUE_OFFSET_AT, store_ms_at, *places)
            return
        for number, start in enumerate(self._starts):
            _PLACES.pack_into(self.records, start + QUEUE_OFFSET_AT, queue_offset + number, physical_offset + start)
            _LONG.pack_into(self.records, start + store_ms_at, store_ms)

    def offsets(self, physical_offset: PhysicalOffset) -> Generator[None, None, Sequence[PhysicalOffset]]:
        """The physical offsets of all messages, some in each step."""
        offsets = array("q")
        for first in range(0, len(self._starts), 1000):
            offsets.extend([physical_offset + start for start in self._starts[first : first + 1000]])
            yield
        return cast("Sequence[PhysicalOffset]", offsets)
