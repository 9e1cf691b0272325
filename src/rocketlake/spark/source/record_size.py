"""The mean size of the messages of a range, by a few samples.

Owns        the places of samples, the mean that they give.
Must not know   limits, Spark.

RocketMQ has no request for the bytes between two offsets. A sample is a pull of some messages; three of them a
range (its start, middle and end) notice messages that grow. Bodies count decompressed, as they fill memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.columns import READ_FAULTS, Records, record_batch, record_starts
from rocketlake.spark.source.brokers import Brokers, PullOutcome, of_each
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions

__all__ = ["RecordSizes"]

_SAMPLE_RECORDS = 8
_BODY = pa.schema([("body", pa.binary())])


class RecordSizes:
    """Mean sizes of records, measured and remembered per queue."""

    def __init__(self, brokers: Brokers, options: SourceOptions) -> None:
        self._brokers = brokers
        self._options = options
        self._last: dict[MessageQueue, float] = {}

    def last(self, queue: MessageQueue) -> float | None:
        """The mean that was measured last in this queue."""
        return self._last.get(queue)

    def measure(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> dict[MessageQueue, float]:
        """Mean bytes of a record in each range [start, end); the last mean where no sample can be read."""
        places = {
            (queue, offset)
            for queue, (start, end) in ranges.items()
            for offset in {start, (start + end) // 2, max(start, end - _SAMPLE_RECORDS)}
        }
        found = self._brokers.run(
            of_each(
                self._brokers,
                self._options,
                places,
                lambda place: f"sampling {describe(place[0])} at offset {place[1]}",
                lambda place: self._sample(*place),
            )
        )
        totals: dict[MessageQueue, tuple[int, int]] = {}
        for (queue, _), (records, size) in found.items():
            before = totals.get(queue, (0, 0))
            totals[queue] = before[0] + records, before[1] + size
        self._last |= {queue: size / records for queue, (records, size) in totals.items() if records}
        return {queue: self._last.get(queue, 1.0) for queue in ranges}

    async def _sample(self, queue: MessageQueue, offset: int) -> tuple[int, int]:
        """The number of messages that a pull gave, and their bytes."""
        pulled = await self._brokers.pull(queue, offset, _SAMPLE_RECORDS, filtered=False)
        if pulled.outcome is not PullOutcome.FOUND:
            return 0, 0
        try:
            records = Records(pulled.data, record_starts(pulled.data))
            return len(records), max(len(pulled.data), record_batch(records, "", _BODY).nbytes)
        except READ_FAULTS:
            # The reader of the queue tells about damage; an estimate is enough here.
            return max(1, pulled.next_offset - offset), len(pulled.data)
