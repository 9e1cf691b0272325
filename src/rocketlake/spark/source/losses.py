"""Messages that were planned and cannot be read: the error, and the count of those passed over.

Owns        the text of the error, the rows of the loss table.
Must not know   how a loss is found.

The file of a loss row is named by its content, so that a batch that is read again does not count the loss again.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4
from zlib import crc32

from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.spark.source.brokers import Bounds
from rocketlake.spark.source.folders import kept_location
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange

__all__ = ["DamagedMessage", "DataLoss", "lose", "lose_damaged"]

log = get_logger(__name__)


class DataLoss(RemoteError):
    """Messages that Spark planned to read cannot be read."""


class MessagesGone(DataLoss):
    """The messages are not at the broker any more. `go_on_at`: the first offset to be read after them."""

    def __init__(self, wanted: QueueRange, lost_from: int, bounds: Bounds, why: str, go_on_at: int) -> None:
        super().__init__(
            f"messages are gone: wanted offsets {lost_from} to {wanted.end - 1} of {describe(wanted.queue)} "
            f"(range {wanted.start} to {wanted.end - 1}), available {bounds.low} to {bounds.high - 1}; {why}",
            code=0,
            hint="'failOnDataLoss' = false counts them and reads what is left; `rocketlake spark offsets set CHECKPOINT"
            f" --topic {wanted.queue.topic} --broker {wanted.queue.broker_name} --queue {wanted.queue.queue_id} "
            f"--offset {go_on_at}` goes on behind them; a new checkpoint starts again by 'startingOffsets'",
        )


class DamagedMessage(DataLoss):
    """The message is at the broker, but its bytes cannot be read."""

    def __init__(self, wanted: QueueRange, offset: int, reason: str) -> None:
        super().__init__(
            f"the message at offset {offset} of {describe(wanted.queue)} is damaged (range {wanted.start} to "
            f"{wanted.end - 1}): {reason}",
            code=0,
            hint="'failOnDataLoss' = false counts it and reads all others ('lossTable' keeps which it was); the record "
            "stays in the broker's log",
        )


def lose(
    options: SourceOptions,
    wanted: QueueRange,
    lost_from: int,
    lost_to: int | None,
    bounds: Bounds,
    why: str,
    *,
    go_on_at: int | None = None,
) -> None:
    """Messages [lost_from, lost_to) of a range are gone: DataLoss, or log and count them if the options say so.

    `lost_to` None: their number is not known.
    """
    loss = MessagesGone(wanted, lost_from, bounds, why, bounds.low if go_on_at is None else go_on_at)
    if options.fail_on_data_loss:
        raise loss
    count = "an unknown number of" if lost_to is None else lost_to - lost_from
    log.warning("%s messages skipped (failOnDataLoss = false): %s", count, loss.what)
    if options.loss_table:
        _write_row(options, wanted, lost_from, lost_to, bounds, why)


def lose_damaged(options: SourceOptions, wanted: QueueRange, offset: int, bounds: Bounds, reason: str) -> None:
    """The message at an offset cannot be read: DamagedMessage, or log and count it if the options say so."""
    loss = DamagedMessage(wanted, offset, reason)
    if options.fail_on_data_loss:
        raise loss
    log.error("1 message skipped (failOnDataLoss = false): %s", loss.what)
    if options.loss_table:
        _write_row(options, wanted, offset, offset + 1, bounds, f"damaged: {reason}")


def _write_row(
    options: SourceOptions, wanted: QueueRange, lost_from: int, lost_to: int | None, bounds: Bounds, why: str
) -> None:
    queue = wanted.queue
    row = {
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "lostFrom": lost_from,
        "lostTo": None if lost_to is None else lost_to - 1,
        "messages": None if lost_to is None else lost_to - lost_from,
        "availableFrom": bounds.low,
        "availableTo": bounds.high - 1,
        "reason": why,
        "notedAtMs": SystemClock().now_ms(),
    }
    identity = crc32(f"{queue.topic}/{queue.broker_name}".encode())
    end = "unknown" if lost_to is None else lost_to
    name = f"loss-{quote(queue.topic, safe='')[:60]}-{identity:08x}-{queue.queue_id}-{lost_from}-{end}.json"
    location = kept_location("lossTable", options.loss_table, options.store)
    text = json.dumps(row).encode() + b"\n"
    if not location.is_local:
        place = location.open()
        place.put(place.path / name, text)
        return
    folder, files = Path(location.path), PosixFiles()
    files.make_dirs(folder)
    # Spark passes over names that begin with an underscore, so it never reads half a row.
    fresh = folder / f"_{uuid4().hex}"
    files.write_bytes(fresh, text)
    files.rename(fresh, folder / name)
