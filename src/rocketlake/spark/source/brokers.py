"""The questions of the Spark source to a cluster: topics, queues, their ends, pulls, offsets kept for a group.

Owns        the seam between the source's rules and the network, retries of a failed question.
Must not know   how questions travel (cluster_brokers.py), Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions

__all__ = [
    "Bounds",
    "Brokers",
    "Found",
    "PullLink",
    "PullOutcome",
    "Pulled",
    "TopicNames",
    "bounds_of",
    "keep_offsets",
    "kept_offsets",
    "of_each",
    "places_of",
    "with_retries",
]

log = get_logger(__name__)
T = TypeVar("T")
K = TypeVar("K")
Found = Mapping[MessageQueue, set[int]]

_PAUSE_GROWTH = 1.5
_PAUSE_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets a queue holds: the first one available and the one the next message will get."""

    low: int
    high: int


class PullOutcome(Enum):
    """The outcome of a pull."""

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


@dataclass(frozen=True, slots=True)
class TopicNames:
    """All topics, and among them the names of clusters and brokers."""

    topics: Collection[str]
    reserved: Collection[str]


class PullLink(Protocol):
    """Pulls of one queue over a connection of one thread, which waits for the answers. Calls may raise LinkError,
    ProtocolError, RemoteError; after that the link can only be closed."""

    def ask(self, offset: int, count: int) -> int:
        """Ask for at most `count` messages from `offset` on; the number of this pull."""

    def head(self) -> tuple[int, Pulled, int]:
        """The next answer, to whichever pull: its number, what it says, the bytes of its records: `read` these next."""

    def read(self, place: memoryview) -> None:
        """Fill `place` with records."""

    def leads_to_master(self) -> bool:
        """False when another broker is the master, as far as this process knows."""

    def close(self) -> None:
        """Answers that are on their way are lost."""


class Brokers(Protocol):
    """A cluster as the source sees it. Coroutines run on a loop of their own, entered through run and submit."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and return its result; for Spark's synchronous calls."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine; returns its future."""

    async def topics(self) -> TopicNames:
        """All topics the name server knows."""

    async def queues(self, topic: str) -> Collection[MessageQueue]:
        """Readable queues by the route of now; NoRoute (UsageError) if the topic is unknown."""

    async def ends(self, topic: str, broker_name: str) -> Mapping[MessageQueue, Bounds]:
        """First and next offset of all queues that a topic has at one broker, in one question."""

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The first offset stored at or after a time, as the broker says (seek.py checks the answer)."""

    async def pull(self, queue: MessageQueue, offset: int, count: int, *, filtered: bool = True) -> Pulled:
        """At most `count` messages from `offset` on, through the filter of the options; never waits for new ones."""

    def pull_link(self, queue: MessageQueue) -> PullLink | None:
        """A connection of this thread to the queue's master, for pulls without a filter; None: there are none here.

        Raises LinkError.
        """

    async def find(self, topic: str, broker_name: str, key: str, *, unique: bool) -> Found | None:
        """Offsets of messages that one broker's index has for a key (`unique`: a message id), and perhaps of others;
        None if the index holds more than the broker tells, or one message is damaged."""

    async def kept_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset the broker keeps for a group."""

    async def keep_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep an offset for a group."""

    async def sleep(self, seconds: float) -> None:
        """Wait on this cluster's clock."""

    def monotonic(self) -> float:
        """Seconds of this cluster's clock."""


async def with_retries(brokers: Brokers, options: SourceOptions, what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until an answer comes. Raises LinkError when none comes.

    After a broken link the question is repeated for `brokerWait`, with growing pauses: brokers restart. After a
    refusal, or a link that breaks beyond that time, it is repeated `fetchOffset.numRetries` times.
    """
    began, pause, tries = brokers.monotonic(), options.retry_interval_ms / 1000, 0
    while True:
        tries += 1
        try:
            return await ask()
        except (LinkError, RemoteError, OSError) as error:
            is_broken = not isinstance(error, RemoteError)
            waited = brokers.monotonic() - began
            if tries > options.retries and not (is_broken and waited + pause <= options.broker_wait_ms / 1000):
                raise _given_up(what, tries, waited, error, options) from error
            log.warning("%s failed, it is tried again in %.1f s: %s", what, pause, _said(error))
            await brokers.sleep(pause)
            if is_broken and tries >= options.retries:
                pause = min(pause * _PAUSE_GROWTH, max(_PAUSE_SECONDS_MAX, pause))


def _given_up(what: str, tries: int, waited: float, error: Exception, options: SourceOptions) -> LinkError:
    times = "once" if tries == 1 else f"{tries} times in {waited:.0f} s"
    where = getattr(error, "where", "") or f"name server {options.namesrv}"
    hint = (
        "look at the broker's log; 'fetchOffset.numRetries' and 'fetchOffset.retryIntervalMs' set how often it is asked"
        if isinstance(error, RemoteError)
        else "start the servers, or mend 'namesrvAddr'; 'brokerWait' sets how long the source waits for one"
    )
    return LinkError(f"{what} failed {times}: {_said(error)}", where=where, hint=hint)


def _said(error: Exception) -> str:
    """The text of the error, without place and cure: the error made of it names these itself."""
    return error.what if isinstance(error, RocketLakeError) else str(error)


def places_of(queues: Iterable[MessageQueue]) -> list[tuple[str, str]]:
    """The (topic, broker) pairs of these queues: as many questions as it takes to learn the ends of all."""
    return sorted({(queue.topic, queue.broker_name) for queue in queues})


async def bounds_of(
    brokers: Brokers, options: SourceOptions, queues: Collection[MessageQueue]
) -> dict[MessageQueue, Bounds]:
    """First and next offset of each queue, all places asked at once.

    A queue that the broker does not name is left out.
    """
    found = await of_each(
        brokers,
        options,
        places_of(queues),
        lambda place: f"asking the offsets of topic {place[0]} at broker {place[1]}",
        lambda place: brokers.ends(*place),
    )
    known = {queue: bounds for ends in found.values() for queue, bounds in ends.items()}
    return {queue: known[queue] for queue in queues if queue in known}


async def kept_offsets(
    brokers: Brokers, options: SourceOptions, group: str, queues: Collection[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """The offset kept for a group, per queue."""
    return await of_each(
        brokers,
        options,
        queues,
        lambda queue: f"reading the offset of group {group} in {describe(queue)}",
        lambda queue: brokers.kept_offset(group, queue),
    )


async def keep_offsets(
    brokers: Brokers, options: SourceOptions, group: str, offsets: Mapping[MessageQueue, int]
) -> None:
    """Have these offsets kept for a group.

    One queue of each topic at each broker goes ahead. Apache's broker makes a group's table of a topic without a lock
    (ConsumerOffsetManager.commitOffset): of a group's first offsets, sent all at once, it keeps some and loses others.
    """
    ahead = {(queue.topic, queue.broker_name): queue for queue in offsets}
    others = [queue for queue in offsets if ahead[queue.topic, queue.broker_name] != queue]
    for queues in (ahead.values(), others):
        await of_each(
            brokers,
            options,
            queues,
            lambda queue: f"keeping the offset of group {group} in {describe(queue)}",
            lambda queue: brokers.keep_offset(group, queue, offsets[queue]),
        )


async def of_each(
    brokers: Brokers,
    options: SourceOptions,
    keys: Collection[K],
    what: Callable[[K], str],
    ask: Callable[[K], Awaitable[T]],
) -> dict[K, T]:
    """Ask about each key, all at once, with retries."""

    def asking(key: K) -> Awaitable[T]:
        return with_retries(brokers, options, what(key), lambda: ask(key))

    found = await asyncio.gather(*(asking(key) for key in keys))
    return dict(zip(keys, found, strict=True))
