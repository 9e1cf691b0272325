"""Brings the table of producer sequences up to the end of the log, at each start of the sends.

Owns        the place from which the log is read; the progress lines while that takes long.
Must not know   how records are read (rebuild.py), when the table is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.broker.producer_sequences.rebuild import Count
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.message_store import MessageStore
from rocketlake.store.slow_work import Progress

__all__ = ["catch_up", "catch_up_in_turns"]

_log = get_logger(__name__)


def catch_up(table: ProducerSequences, store: MessageStore, clock: Clock) -> None:
    """Have the table count every marked message of the log, and open it."""
    for _position in _steps(table, store, clock):
        pass


async def catch_up_in_turns(table: ProducerSequences, store: MessageStore, clock: Clock) -> None:
    """The same, beside other work of the loop: a broker that becomes the master goes on to send heartbeats."""
    for _position in _steps(table, store, clock):
        await asyncio.sleep(0)


def _steps(table: ProducerSequences, store: MessageStore, clock: Clock) -> Iterator[int]:
    start = table.log_offset
    if start is not None:
        if start > store.max_physical_offset:
            _log.warning("%s counts messages behind the end of the log; the log is read from its start", table.path)
            table.forget_all()
            start = 0
        deleted = store.deletions.topics
        table.forget_deleted(deleted)
        count, progress = Count(), Progress(clock)
        for position in count.steps(store.log_views(PhysicalOffset(start)), deleted):
            if progress.is_due():
                _log.info(
                    "start: the log is read for producer sequences, from %d; now at %d of %d (%d s)",
                    start,
                    position,
                    store.max_physical_offset,
                    progress.seconds,
                )
            yield position
        found = count.into(table)
        if progress.was_due:
            _log.info("start: producer sequences are known, %d messages were counted", found)
    table.opened()
