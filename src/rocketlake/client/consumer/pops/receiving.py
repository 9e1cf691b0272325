"""A consumer that you ask for messages: it receives them for a while, and acknowledges each one by itself.

Owns        the life of such a consumer, how long a receive waits and whom it asks next, acknowledgements.
Must not know   what is popped (simple.py, lite.py), how requests look (calls/pop.py), renewals (renewals.py).

A receive asks one place after the other, each time from another one on, until one has messages or the time is up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import stop_each
from rocketlake.base.settings.arguments import check_kind, check_number
from rocketlake.client.calls.answer import POPPED_AGAIN, PULLED_AFTER_HEARTBEAT, is_of_slave
from rocketlake.client.calls.pop import POP_MAX, PopAnswer
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.group_consumer import GroupConsumer, PushSettings
from rocketlake.client.consumer.membership import ConsumeType, Membership
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.renewals import Renewals
from rocketlake.client.consumer.pull_loop import wanted_of
from rocketlake.client.consumer.send_back import SendBack
from rocketlake.client.errors import NotRunning
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.model.subscription import Subscription

__all__ = ["PAUSE_SECONDS", "Place", "ReceivingConsumer"]

log = get_logger(__name__)
PAUSE_SECONDS = 1.0
"""Behind an answer that a broker lets no more requests wait, and while a topic has no route."""

A = TypeVar("A", bound=PopAccess)


class Place(NamedTuple):
    """All queues of a topic at one broker."""

    queue: MessageQueue
    subscription: Subscription


class ReceivingConsumer(GroupConsumer, ABC, Generic[A]):
    """What simple consumers have in common."""

    def __init__(
        self, kind: str, group: str, told: PushSettings, make_access: Callable[[ClientInstance, str], A]
    ) -> None:
        super().__init__(kind, group, told)
        self._pops = make_access(self.instance, group)
        self._renewals = Renewals(self._pops, self.config.consume_timeout_ms, self._clock, self.spawn)
        send_back = SendBack(self.instance, group, reconsume_limit=0, clock=self._clock)
        self._damage = Damage(group, self.hooks, send_back.to_dead_letters)
        self._turn = 0
        self._membership = Membership(
            group,
            kind=ConsumeType.ACTIVELY,
            broadcasting=False,
            orderly=False,
            from_where=self.from_where,
            subscriptions=self._subscriptions,
            offsets=RemoteOffsets(self._access.committed, self._access.commit),
            queues=tuple,
            held=tuple,
            rebalance_soon=_nothing,
            persist=_nothing_to_save,
            reset=_nothing_to_reset,
            consume_directly=None,
            properties=dict,
            lite_taken=self._lite_taken,
        )

    # life

    async def start(self) -> None:
        """Join the group. A topic without a route is waited for, not an error."""
        if self.is_running:
            return
        self.instance.check_open(type(self).__name__, self.group)
        if not self._subscriptions:
            raise UsageError(
                f"the consumer of group {self.group!r} has no topic",
                hint='give it one: SimpleConsumer("group", "topic", namesrv=...)',
            )
        self.instance.add_consumer(self._membership)
        await super().start()
        self.keep("renewals", self._renewals.run)
        try:
            if self._own_instance:
                await self.instance.start()
            await self._join()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave the group. Messages that are not acknowledged come again when their time is over."""
        if not self.is_running:
            return
        self.is_running = False
        await stop_each(
            super().stop,
            self._leave,
            *([self.instance.stop] if self._own_instance else []),
        )

    async def _leave(self) -> None:
        await self.instance.remove_consumer(self._membership)

    # what differs

    @abstractmethod
    async def _pop(self, place: Place, max_messages: int, invisible_ms: int, poll_ms: int) -> PopAnswer:
        """Take messages of a place, whose broker may hold the request for so long."""

    @abstractmethod
    def _poll_ms(self, places: Sequence[Place], left_ms: int) -> int:
        """How long each of these may hold a request."""

    def _lite_taken(self, lite: str) -> None:
        """A lite topic is another client's of the group."""

    async def _idle(self, places: Sequence[Place], seconds: float) -> None:
        """None of these had a message: wait, if their answers did not."""

    # messages

    async def receive(
        self,
        max_messages: int = POP_MAX,
        *,
        invisible_ms: int | None = None,
        await_ms: int | None = None,
        renew: bool = False,
    ) -> list[StoredMessage]:
        """Messages for `invisible_ms` (None: `pop_invisible_ms`); [] if none came within `await_ms` (None: `hold_ms`).

        `renew`: the time of each is extended until you acknowledge it or change its time yourself, for
        `consume_timeout_ms` at most. Several tasks may receive at once. RemoteError: a broker refuses for good;
        LinkError: none could be reached until the time was up.
        """
        self._check(max_messages, invisible_ms, await_ms)
        invisible_ms = self.config.pop_invisible_ms if invisible_ms is None else invisible_ms
        wait_ms = self.config.hold_ms if await_ms is None else await_ms
        until = self._clock.monotonic() + wait_ms / 1000
        while True:
            self._check_running()  # it may have been stopped meanwhile
            left = until - self._clock.monotonic()
            places: Sequence[Place] = []
            try:
                places = await self._places()
                poll_ms = self._poll_ms(places, max(0, int(left * 1000)))
                messages, failure = await self._look(places, max_messages, invisible_ms, poll_ms)
            except LinkError as error:  # no name server: it may come back, or `stop` has closed the link
                messages, failure = [], error
            if messages:
                if renew:
                    self._renewals.begin(messages, invisible_ms)
                return messages
            left = until - self._clock.monotonic()
            if left <= 0:
                if failure is not None:
                    raise failure
                return []
            if failure is not None or not places:
                await self._clock.sleep(min(left, self.config.error_pause_ms / 1000, PAUSE_SECONDS))
            else:
                await self._idle(places, left)

    async def ack(self, message: StoredMessage) -> None:
        """The message is done with: the broker answers when it will not hand it out again.

        Raises HandleExpired if the time of the message is over, RemoteError, LinkError: then it comes again, perhaps.
        """
        self._check_popped(message)
        self._renewals.end(message)
        await self._pops.ack(message)

    async def change_invisible(self, message: StoredMessage, duration_ms: int) -> None:
        """The message comes again `duration_ms` from now on, and counts one more try then.

        More than is left gives you more time, little gives it back. Raises as `ack`.
        """
        self._check_popped(message)
        check_number("duration_ms", duration_ms, 0)
        self._renewals.end(message)
        await self._pops.change(message, duration_ms)

    @property
    def damaged(self) -> int:
        """Messages that could not be read since the start; each is in the log and a dead letter."""
        return self._damage.count

    def _check_running(self) -> None:
        if not self.is_running:
            raise NotRunning(type(self).__name__, self.group, is_over=self.instance.is_closed)

    def _check_popped(self, message: StoredMessage) -> None:
        self._check_running()
        check_kind("what is acknowledged", message, StoredMessage, hint="give one of the messages of `receive()`")

    def _check(self, max_messages: int, invisible_ms: int | None, await_ms: int | None) -> None:
        self._check_running()
        where = f"{type(self).__name__} of group {self.group!r}"
        check_number("max_messages", max_messages, 1, POP_MAX, where=where)
        if invisible_ms is not None:
            check_number("invisible_ms", invisible_ms, 1, where=where)
        if await_ms is not None:
            check_number("await_ms", await_ms, 0, kind=float, where=where)

    # brokers and topics

    async def _places(self) -> Sequence[Place]:
        """Where messages may be, another one first each time."""
        found: list[Place] = []
        for topic, subscription in sorted(self._subscriptions.items()):
            brokers = {queue.broker_name for queue in await self.instance.queues_to_read(topic) or ()}
            found += [Place(MessageQueue(topic, name, ANY_QUEUE), subscription) for name in sorted(brokers)]
        self._turn += 1
        first = self._turn % len(found) if found else 0
        return [*found[first:], *found[:first]]

    async def _look(
        self, places: Sequence[Place], max_messages: int, invisible_ms: int, poll_ms: int
    ) -> tuple[list[StoredMessage], RocketLakeError | None]:
        """The messages of the first place that has some; the error if no place could be asked."""
        failure: RocketLakeError | None = None
        failed = 0
        for place in places:
            try:
                answer = await self._pop(place, max_messages, invisible_ms, poll_ms)
            except (RemoteError, LinkError) as error:
                if isinstance(error, RemoteError) and not (error.code in POPPED_AGAIN or is_of_slave(error)):
                    raise
                if isinstance(error, RemoteError) and error.code in PULLED_AFTER_HEARTBEAT:
                    self.instance.heartbeat_soon()
                failure, failed = error, failed + 1
                log.info("group %s got nothing from %s: %s", self.group, place.queue, error)
                continue
            if answer.is_full and poll_ms:
                await self._clock.sleep(min(poll_ms / 1000, PAUSE_SECONDS))
            if messages := await self._wanted(answer, place.subscription):
                return messages, None
        return [], failure if failed == len(places) else None

    async def _wanted(self, answer: PopAnswer, subscription: Subscription) -> list[StoredMessage]:
        """The messages for the user; those that its filter leaves out are done with."""
        wanted = wanted_of(answer.messages, subscription)
        tags = subscription.tags
        done = [message for message in answer.messages if tags and message.tags not in tags]
        for record in answer.damaged:
            # One whose lengths are broken has no handle: it comes again, and is told again.
            if await self._damage.settle(record) and record.message is not None:
                done.append(record.message)
        if done:
            try:
                await self._pops.ack_all(done)
            except RocketLakeError as error:
                log.warning("%d message(s) that nobody wants come to group %s again: %s", len(done), self.group, error)
        return wanted


async def _nothing_to_save() -> None:
    """The broker keeps the offsets."""


async def _nothing_to_reset(_topic: str, _offsets: Mapping[MessageQueue, int]) -> None:
    """The broker goes on elsewhere by itself."""


def _nothing() -> None:
    """No queues are shared."""
