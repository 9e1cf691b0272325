"""What the Spark source asks of a RocketMQ cluster: queues, first and next offsets, pulls, offsets kept for a group.

Owns        the seam between the source's rules and the network, retries of a failed question.
Must not know   how questions travel (cluster_brokers.py), Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions

__all__ = [
    "Bounds",
    "Brokers",
    "PullOutcome",
    "Pulled",
    "bounds_of",
    "keep_offsets",
    "kept_offsets",
    "next_offsets_of",
    "with_retries",
]

log = get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets a queue holds: the first one available and the one the next message will get."""

    low: int
    high: int


class PullOutcome(Enum):
    """What a broker answered to a pull."""

    FOUND = "messages"
    NOTHING_YET = "no message at this offset yet"
    NOTHING_MATCHED = "messages were passed over; go on at next_offset"
    OUT_OF_RANGE = "the queue does not hold this offset"


@dataclass(frozen=True, slots=True)
class Pulled:
    """One pull answer; `data` holds whole records back to back."""

    outcome: PullOutcome
    data: bytes
    next_offset: int
    bounds: Bounds


class Brokers(Protocol):
    """A cluster as the source sees it. Coroutines run on a loop of their own, entered through run and submit."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end and give back its result; called from Spark's (synchronous) code."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it and give back its future result."""

    async def queues(self, topic: str) -> Collection[MessageQueue]:
        """Readable queues by the route of now; NoRoute (UsageError) if the topic is unknown."""

    async def bounds(self, queue: MessageQueue) -> Bounds:
        """First and next offset."""

    async def next_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""

    async def pull(self, queue: MessageQueue, offset: int, count: int) -> Pulled:
        """At most `count` messages from `offset` on, filtered by the tags option; never waits for new ones."""

    async def kept_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset the broker keeps for a group."""

    async def keep_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep an offset for a group."""

    async def sleep(self, seconds: float) -> None:
        """Wait on this cluster's clock."""

    def monotonic(self) -> float:
        """Seconds of this cluster's clock."""


async def with_retries(brokers: Brokers, options: SourceOptions, what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask; after a broken line or a refusal pause and ask again, at most `fetchOffset.numRetries` times."""
    for tries in range(options.retries + 1):
        try:
            return await ask()
        except (LinkError, RemoteError, OSError) as error:
            if tries == options.retries:
                raise LinkError(
                    f"{what} failed {tries + 1} times: {error}",
                    where=f"name server {options.namesrv}",
                    hint="look at the brokers; 'fetchOffset.numRetries' and 'fetchOffset.retryIntervalMs' set how long "
                    "the source tries",
                ) from error
            log.warning("%s failed, try %d of %d follows: %s", what, tries + 2, options.retries + 1, error)
            await brokers.sleep(options.retry_interval_ms / 1000)
    raise AssertionError("unreachable: the loop returns or raises")


async def bounds_of(
    brokers: Brokers, options: SourceOptions, queues: Collection[MessageQueue]
) -> dict[MessageQueue, Bounds]:
    """First and next offset of each queue, asked all at once."""
    return await _of_each(brokers, options, queues, "asking the offsets of", brokers.bounds)


async def next_offsets_of(
    brokers: Brokers, options: SourceOptions, queues: Collection[MessageQueue]
) -> dict[MessageQueue, int]:
    """The offset that the next message of each queue will get, asked all at once."""
    return await _of_each(brokers, options, queues, "asking the end of", brokers.next_offset)


async def kept_offsets(
    brokers: Brokers, options: SourceOptions, group: str, queues: Collection[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """The offset kept for a group, per queue."""
    return await _of_each(
        brokers, options, queues, f"reading the offset of group {group} in", lambda q: brokers.kept_offset(group, q)
    )


async def keep_offsets(
    brokers: Brokers, options: SourceOptions, group: str, offsets: Mapping[MessageQueue, int]
) -> None:
    """Have these offsets kept for a group."""
    await _of_each(
        brokers,
        options,
        offsets.keys(),
        f"keeping the offset of group {group} in",
        lambda q: brokers.keep_offset(group, q, offsets[q]),
    )


async def _of_each(
    brokers: Brokers,
    options: SourceOptions,
    queues: Collection[MessageQueue],
    what: str,
    ask: Callable[[MessageQueue], Awaitable[T]],
) -> dict[MessageQueue, T]:
    def asking(queue: MessageQueue) -> Awaitable[T]:
        return with_retries(brokers, options, f"{what} {describe(queue)}", lambda: ask(queue))

    found = await asyncio.gather(*(asking(queue) for queue in queues))
    return dict(zip(queues, found, strict=True))
