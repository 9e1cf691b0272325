"""One loop per queue: pull, filter, hand over; pause when enough messages are in hand.

Owns        the position of the next pull, flow control, the reaction to each answer of the broker.
Must not know   listeners, how members share queues.

Rule: each pull from a master commits the offset known so far. An empty answer moves the committed offset only while no
message is in hand. After an illegal offset (broker restored, offsets reset) the queue starts again where the broker
says. Offsets that the broker has deleted are passed over, and messages in hand stay. When a queue lost its end at the
broker, messages in hand are pulled again. Messages before a damaged record are handed over first; the queue goes on
behind the record once damage.py has settled it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.answer import OTHERWISE_SUBSCRIBED, PULLED_AFTER_HEARTBEAT, PULLED_SLOWER
from rocketlake.client.calls.pull import PullAnswer, PullStatus
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription

log = get_logger(__name__)
BROKER_FLOW_CONTROL_SECONDS = 0.02
NOT_READY_SECONDS = 1.0
NOTHING_SEEN = -1


@dataclass(slots=True)
class PullPlan:
    """Shared by all pulls of one consumer."""

    config: ConsumerConfig
    clock: Clock
    offsets: OffsetStore
    subscription: Callable[[str], Subscription | None]
    pull: Callable[[ProcessQueue, Subscription, int, int], Awaitable[PullAnswer]]
    submit: Callable[[ProcessQueue, Sequence[StoredMessage]], None]
    pulled: Callable[[str, float, int], None]
    """Told of each pull: its topic, how long it took (seconds), how many messages it brought."""
    restart: Callable[[ProcessQueue, int], Awaitable[None]]
    by_time: Callable[[MessageQueue, int], Awaitable[int]]
    unregistered: Callable[[], None]
    after_break: Callable[[MessageQueue, float], Awaitable[None]]
    """Pause for so many seconds, less if the queue's broker has a new master."""
    is_paused: Callable[[], bool]
    is_locked: Callable[[ProcessQueue], bool] | None
    damaged: Callable[[DamagedRecord], Awaitable[bool]]
    commits: bool
    queue_limit: Callable[[str], int]
    group: str
    warnings: RareWarnings
    """Shared by all queues: a fault at one queue is mostly a fault at all of them."""


class PullLoop:
    """Pulls one queue until it is dropped."""

    def __init__(self, plan: PullPlan, held: ProcessQueue, first_offset: int) -> None:
        self._plan = plan
        self._held = held
        self._seen_ms = NOTHING_SEEN
        self.next_offset = first_offset

    async def run(self) -> None:
        """Pull, hand over, again."""
        held, clock = self._held, self._plan.clock
        while not held.dropped:
            pause = self._pause_seconds()
            subscription = self._plan.subscription(held.queue.topic)
            if pause or subscription is None:
                held.last_pull = clock.monotonic()
                await clock.sleep(pause or NOT_READY_SECONDS)
                continue
            pause = await pause_behind(self._pull(subscription), held.queue, self._plan.config, self._plan.warnings)
            if pause and not held.dropped:
                await clock.sleep(pause)

    def _pause_seconds(self) -> float:
        """Flow control: 0 when the next pull may go out."""
        held, config = self._held, self._plan.config
        if self._plan.is_paused():
            return NOT_READY_SECONDS
        if held.count > self._plan.queue_limit(held.queue.topic) or held.size > config.queue_bytes_max:
            self._plan.warnings.warn(
                f"full {held.queue}",
                "flow control: %s has %d messages (%d bytes) in hand from offset %d on; the listener of group %s is"
                " slower than its pulls",
                held.queue, held.count, held.size, held.lowest, self._plan.group,
            )  # fmt: skip
            return config.flow_control_pause_ms / 1000
        if self._plan.is_locked is not None:
            return 0.0 if self._plan.is_locked(held) else NOT_READY_SECONDS
        return config.flow_control_pause_ms / 1000 if held.span > config.span_max else 0.0

    async def _pull(self, subscription: Subscription) -> float:
        """One pull; returns the pause after it in seconds."""
        held, plan = self._held, self._plan
        held.last_pull = plan.clock.monotonic()
        commit = max(plan.offsets.memory(held.queue), 0) if plan.commits else 0
        try:
            answer = await plan.pull(held, subscription, self.next_offset, commit)
        except RemoteError as error:
            if error.code in PULLED_SLOWER:
                return BROKER_FLOW_CONTROL_SECONDS
            if error.code in PULLED_AFTER_HEARTBEAT:
                # A broker that restarted does not know the group before the next heartbeat.
                plan.unregistered()
            if error.code in OTHERWISE_SUBSCRIBED:
                # A broker keeps one subscription for a group: that of the last heartbeat counts for all members.
                plan.warnings.warn(
                    f"otherwise {held.queue.topic}",
                    "the broker has no such subscription of topic %s (%r) by group %s: it has just restarted, or"
                    " another member subscribes otherwise, or two members have one client id; then messages reach"
                    " nobody. Cure: the same subscriptions in all members, each with its own client id (broker: %s)",
                    held.queue.topic, subscription.expression, plan.group, error.what,
                )  # fmt: skip
                return plan.config.error_pause_ms / 1000
            plan.warnings.warn("refused", "pull of %s was refused: %s", held.queue, error)
            return plan.config.error_pause_ms / 1000
        except RocketLakeError as error:
            plan.warnings.warn("failed", "pull of %s failed: %s", held.queue, error)
            if not isinstance(error, LinkError):
                return plan.config.error_pause_ms / 1000
            await plan.after_break(held.queue, plan.config.error_pause_ms / 1000)
            return 0.0
        plan.pulled(held.queue.topic, plan.clock.monotonic() - held.last_pull, len(answer.messages))
        if held.dropped or plan.subscription(held.queue.topic) is not subscription:
            # The user has changed the filter since: messages that the old one left out may be wanted.
            return 0.0
        return await self._take(answer, subscription)

    async def _take(self, answer: PullAnswer, subscription: Subscription) -> float:
        held, plan = self._held, self._plan
        if answer.status is PullStatus.OFFSET_ILLEGAL:
            if answer.is_deleted(self.next_offset):
                return self._go_on_behind_deleted(answer.min_offset)
            log.warning(
                "offset %d of %s is illegal, the broker advises %d", self.next_offset, held.queue, answer.next_offset
            )
            offset = answer.next_offset
            if self.next_offset > answer.max_offset:
                try:
                    offset = await first_unseen(plan.by_time, held.queue, self._seen_ms, answer)
                except RocketLakeError as error:
                    plan.warnings.warn("unseen", "where %s goes on is not known now: %s", held.queue, error)
                    return plan.config.error_pause_ms / 1000
                if held.count:
                    offset = min(offset, held.lowest)
            await plan.restart(held, offset)
            return 0.0
        messages = answer.messages
        if messages:
            self._seen_ms = messages[-1].store_ms
        for record in answer.damaged:
            self._hand_over([message for message in messages if message.queue_offset < record.offset], subscription)
            messages = [message for message in messages if message.queue_offset >= record.offset]
            self.next_offset = record.offset
            if not await plan.damaged(record):
                return plan.config.error_pause_ms / 1000
            if held.dropped:
                return 0.0
            if plan.subscription(held.queue.topic) is not subscription:
                # Messages behind the record were pulled with another filter than the user has now.
                self.next_offset = record.offset + 1
                return 0.0
        self._hand_over(messages, subscription)
        self.next_offset = answer.next_offset
        if held.count == 0:
            plan.offsets.update(held.queue, self.next_offset, increase_only=True)
        return plan.config.pull_interval_ms / 1000

    def _go_on_behind_deleted(self, offset: int) -> float:
        """Go on behind the deleted offsets. Messages in hand stay: no broker has them any more."""
        held, plan = self._held, self._plan
        log.warning(
            "offsets %d to %d of %s are deleted at the broker, group %s goes on behind them",
            self.next_offset, offset - 1, held.queue, plan.group,
        )  # fmt: skip
        self.next_offset = offset
        if held.count == 0:
            plan.offsets.update(held.queue, offset, increase_only=True)
        return 0.0

    def _hand_over(self, messages: list[StoredMessage], subscription: Subscription) -> None:
        if wanted := wanted_of(messages, subscription):
            self._held.add(wanted)
            self._plan.submit(self._held, wanted)


async def pause_behind(
    read: Awaitable[float], queue: MessageQueue, config: ConsumerConfig, warnings: RareWarnings
) -> float:
    """The pause in seconds that this pull or pop of a queue asks for.

    The queue must go on, also behind an error that nobody foresaw: it is logged, and the pause is that behind an error.
    """
    try:
        return await read
    except Exception as error:  # a bug of ours, or a hook of the user
        warnings.error(f"bug {queue}", error, "reading %s failed, it goes on", queue)
        return config.error_pause_ms / 1000


async def first_unseen(
    by_time: Callable[[MessageQueue, int], Awaitable[int]], queue: MessageQueue, seen_ms: int, answer: PullAnswer
) -> int:
    """Where to go on in a queue that ends before our offset: at what was stored since the last message that we saw.

    `seen_ms`: its store time (epoch ms), NOTHING_SEEN when there is none: then where the broker advises. Raises as
    `by_time` does.
    """
    if seen_ms == NOTHING_SEEN:
        return answer.next_offset
    return min(answer.next_offset, max(answer.min_offset, await by_time(queue, seen_ms)))


def wanted_of(messages: list[StoredMessage], subscription: Subscription) -> list[StoredMessage]:
    """The messages with a wanted tag. Brokers filter by the tag's hash code, which other tags may share."""
    if not subscription.tags:
        return messages
    return [message for message in messages if message.tags in subscription.tags]
