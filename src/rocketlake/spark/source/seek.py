"""Positions -> offsets: the offset of a word, a time or a group's progress in each queue now.

Owns        the questions to brokers, the check of a broker's answer to a time.
Must not know   Spark, when positions are resolved.

Brokers of 4.9 answer the message nearest to a time, which may be one too early or too late, so each answer is checked
against the messages on both sides of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.columns import READ_FAULTS, Records, record_starts
from rocketlake.spark.source.brokers import Bounds, Brokers, PullOutcome, kept_offsets, of_each, with_retries
from rocketlake.spark.source.offsets import Offsets, describe, describe_all
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.positions import Kind, Position, Positions, Side

__all__ = ["offsets_of_times", "resolve"]

log = get_logger(__name__)

_BEFORE_ALL = -1
_AFTER_ALL = 2**63 - 1


async def resolve(
    brokers: Brokers, options: SourceOptions, positions: Positions, bounds: Mapping[MessageQueue, Bounds]
) -> Offsets:
    """One number per queue. UsageError when JSON leaves queues out, or an offset or (if strict) a time is past the end.

    A group that never committed in a queue has read nothing of it: its position is the queue's first message.
    """
    wanted = positions.of(bounds.keys())
    resolved = {
        queue: bounds[queue].low if position.kind is Kind.EARLIEST else bounds[queue].high
        for queue, position in wanted.items()
    }
    resolved |= _numbers(positions, wanted, bounds)
    resolved |= await _of_group(brokers, options, positions, wanted, bounds)
    times = {queue: position.number for queue, position in wanted.items() if position.kind is Kind.TIME}
    found = await offsets_of_times(brokers, options, times, bounds)
    if positions.strict:
        _refuse_past_end(positions, times, found, bounds)
    return resolved | found


def _numbers(
    positions: Positions, wanted: Mapping[MessageQueue, Position], bounds: Mapping[MessageQueue, Bounds]
) -> Offsets:
    numbers = {queue: position.number for queue, position in wanted.items() if position.kind is Kind.OFFSET}
    for queue, number in numbers.items():
        if number > bounds[queue].high:
            raise UsageError(
                f"option '{positions.option}' wants offset {number} of {describe(queue)}, past its end",
                hint=f"use one of the offsets it holds, {bounds[queue].low} to {bounds[queue].high} (next), or latest",
            )
    return numbers


async def _of_group(
    brokers: Brokers,
    options: SourceOptions,
    positions: Positions,
    wanted: Mapping[MessageQueue, Position],
    bounds: Mapping[MessageQueue, Bounds],
) -> Offsets:
    queues = [queue for queue, position in wanted.items() if position.kind is Kind.GROUP]
    kept = await kept_offsets(brokers, options, positions.group, queues)
    without = {queue for queue, offset in kept.items() if offset is None}
    if without and positions.side is Side.STARTING:
        log.warning(
            "group %s has no offset in %s; reading starts at the first message there",
            positions.group,
            describe_all(without),
        )
    return {queue: bounds[queue].low if offset is None else offset for queue, offset in kept.items()}


def _refuse_past_end(
    positions: Positions, times: Mapping[MessageQueue, int], found: Offsets, bounds: Mapping[MessageQueue, Bounds]
) -> None:
    late = [queue for queue, offset in found.items() if offset >= bounds[queue].high]
    if late:
        when = datetime.fromtimestamp(times[late[0]] / 1000, UTC).isoformat()
        raise UsageError(
            f"option '{positions.option}': no message was stored at or after {when} in {describe_all(late)}",
            hint="set startingOffsetsByTimestampStrategy = latest (the default) to start at the end of such a queue",
        )


async def offsets_of_times(
    brokers: Brokers,
    options: SourceOptions,
    times: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, Bounds],
) -> Offsets:
    """The first offset stored at or after each queue's time; the queue's end if there is none."""
    return await of_each(
        brokers,
        options,
        times.keys(),
        lambda queue: f"looking up a time in {describe(queue)}",
        lambda queue: _offset_of_time(brokers, options, queue, bounds[queue], times[queue]),
    )


async def _offset_of_time(
    brokers: Brokers, options: SourceOptions, queue: MessageQueue, bounds: Bounds, time_ms: int
) -> int:
    low, high = bounds.low, bounds.high
    if low >= high:
        return high
    answer = min(max(await brokers.offset_at(queue, time_ms), low), high)
    before, at = await asyncio.gather(
        _store_ms(brokers, options, queue, answer - 1, high) if answer > low else _nothing(_BEFORE_ALL),
        _store_ms(brokers, options, queue, answer, high) if answer < high else _nothing(time_ms),
    )
    if before < time_ms <= at:
        return answer
    while low < high:
        middle = (low + high) // 2
        if await _store_ms(brokers, options, queue, middle, high) >= time_ms:
            high = middle
        else:
            low = middle + 1
    return low


async def _nothing(value: int) -> int:
    return value


async def _store_ms(brokers: Brokers, options: SourceOptions, queue: MessageQueue, offset: int, high: int) -> int:
    """Store time of the message at an offset; a message that is gone counts as older than all others.

    For a damaged message the time of the next one that can be read: the damaged one is at least as old.
    """
    for at in range(offset, high):
        pulled = await with_retries(
            brokers,
            options,
            f"reading {describe(queue)} at offset {at}",
            lambda at=at: brokers.pull(queue, at, 1, filtered=False),  # type: ignore[misc]
        )
        if pulled.outcome is PullOutcome.NOTHING_MATCHED:
            continue  # the broker passes over messages that it cannot read
        if pulled.outcome is not PullOutcome.FOUND:
            return _BEFORE_ALL
        try:
            return int(Records(pulled.data, record_starts(pulled.data)).store_ms[0])
        except READ_FAULTS as error:
            log.warning("the message at offset %d of %s cannot be read: %s", at, describe(queue), error)
    return _AFTER_ALL
