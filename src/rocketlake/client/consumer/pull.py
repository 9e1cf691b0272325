"""The pull consumer: you poll, seek and commit.

Owns        which queues are read (assigned by you, or shared with the group), what a poll hands out, seeks.
Must not know   how a queue is fetched ahead (fetch.py), in which order commits reach a broker (commits.py).

Rule: `poll` hands out each queue's messages in order. Messages of earlier polls count as consumed; they are committed
every `persist_interval_ms` (auto_commit), or by `commit()`. Messages that were handed out and not confirmed come again.
So that this holds for a group that never committed, its first position in a queue is saved before messages of the queue
are handed out (commits.py), unless the user chose the position by `seek`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Unpack

from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import stop_each
from rocketlake.base.settings.arguments import check_kind, check_number, listed
from rocketlake.client.alarm import Alarm
from rocketlake.client.consumer.commits import Commits
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.fetch import Fetch
from rocketlake.client.consumer.filters import subscription_of
from rocketlake.client.consumer.group_consumer import ConsumerSettings, GroupConsumer, spelled_out, with_defaults
from rocketlake.client.consumer.membership import ConsumeType, Membership
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.client.consumer.puller import Puller
from rocketlake.client.consumer.rebalance import Rebalance
from rocketlake.client.errors import NoRoute, NotRunning
from rocketlake.model import names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import TAG

log = get_logger(__name__)
POLL_TIMEOUT_MS = 5000


class PullConsumer(GroupConsumer):
    """`subscribe` shares queues with the group, `assign` takes a list of yours; then `poll`, `seek`, `commit`."""

    @spelled_out(ConsumerSettings)
    def __init__(self, group: str, *, auto_commit: bool = True, **settings: Unpack[ConsumerSettings]) -> None:
        super().__init__("pull consumer", group, with_defaults(settings))
        self.auto_commit = auto_commit
        self._offsets = RemoteOffsets(self._access.committed, self._access.commit)
        self._puller = Puller(self.instance, group, self.config, lite=True)
        self._fetches: dict[MessageQueue, Fetch] = {}
        self._assigned: frozenset[MessageQueue] | None = None
        self._arrived = Alarm(self._clock)
        self._assigning = asyncio.Lock()
        self._turn = 0
        self._paused: set[MessageQueue] = set()
        self._commits = Commits(
            self._access,
            self._offsets,
            spawn=self.spawn,
            saved=self._arrived.ring,
            clock=self._clock,
            retry_seconds=self.config.error_pause_ms / 1000,
        )
        self._damage = Damage(group, self.hooks, None)
        self._rebalance = Rebalance(
            self.instance,
            self,
            group=group,
            config=self.config,
            allocate=self._allocate,
            broadcasting=False,
            clock=self._clock,
        )
        self._membership = Membership(
            group,
            kind=ConsumeType.ACTIVELY,
            broadcasting=False,
            orderly=False,
            from_where=self.from_where,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            queues=self.queues,
            held=tuple,
            rebalance_soon=self._rebalance.soon,
            persist=self._persist,
            reset=self._reset,
            consume_directly=None,
            properties=dict,
        )

    # which queues

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = TAG) -> None:
        """Share the topic's queues with the group, filtered by tags or, with type `"SQL92"`, by properties."""
        if self._assigned is not None:
            raise UsageError("subscribe() after assign()", where=self.name, hint="use one of them")
        names.check_topic(topic)
        self._subscriptions[topic] = subscription_of(topic, expression, expression_type, self.instance.new_version())
        self._rebalance.topics.add(topic)
        self._follow_filters()
        if self.is_running:
            self.instance.heartbeat_soon()
            self._rebalance.soon()

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic."""
        self._subscriptions.pop(topic, None)
        self._rebalance.topics.discard(topic)
        self._rebalance.soon()

    def assign(self, queues: Collection[MessageQueue], expression: str = "*", expression_type: str = TAG) -> None:
        """Read exactly these queues, whatever other members do; takes effect with the next poll or seek."""
        if self._assigned is None and self._subscriptions:
            raise UsageError("assign() after subscribe()", where=self.name, hint="use one of them")
        own = _listed(queues)
        version, topics = self.instance.new_version(), {queue.topic for queue in own}
        subscriptions = {topic: subscription_of(topic, expression, expression_type, version) for topic in topics}
        self._assigned = frozenset(own)
        self._rebalance.is_paused = True
        self._subscriptions.clear()
        self._subscriptions.update(subscriptions)
        self._follow_filters()

    def _follow_filters(self) -> None:
        for queue, fetch in self._fetches.items():
            if subscription := self._subscriptions.get(queue.topic):
                fetch.follow(subscription)

    async def _follow_assignment(self) -> None:
        self._must_run()
        if self._assigned is None or self._assigned == self._fetches.keys():
            return
        async with self._assigning:
            for queue in sorted(self._fetches.keys() - self._assigned):
                await self.leave(queue)
            for queue in sorted(self._assigned - self._fetches.keys()):
                await self._take(queue)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic that can be read, sorted. Raises NoRoute."""
        self._must_run()
        names.check_topic(topic)
        try:
            queues = await self.instance.queues_to_read(topic)
        except LinkError:
            self.instance.check_open("PullConsumer", self.group)
            raise
        if queues is None:
            raise NoRoute(topic, self.instance.name_servers.addresses, purpose="read")
        return list(queues)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues read now."""
        return sorted(self._fetches if self._assigned is None else self._assigned)

    @property
    def damaged(self) -> int:
        """Messages that could not be read and were passed over; each is in the log."""
        return self._damage.count

    # life

    async def start(self) -> None:
        """Begin; join the group if there is a subscription."""
        if self.is_running:
            return
        self.instance.check_open("PullConsumer", self.group)
        self.instance.add_consumer(self._membership)
        await super().start()
        if self._own_instance:
            await self.instance.start()
        try:
            await self._join()
            await self._begin_rounds(self._rebalance)
        except BaseException:
            await self._end()
            raise

    async def stop(self) -> None:
        """Leave the group. Messages of the last poll come again: the user's work on them may have failed.

        Leaving the `async with` block without an error, or `commit()`, confirms them.
        """
        if self.is_running:
            await self._end()

    async def _end(self) -> None:
        self.is_running = False
        self._arrived.ring()
        await stop_each(
            self._end_rounds,
            self._commits.settle,
            self._leave_all,
            partial(self.instance.remove_consumer, self._membership),
            super().stop,
            *([self.instance.stop] if self._own_instance else []),
        )

    async def _leave_all(self) -> None:
        """Save the offsets of all queues together: a broker out of reach then costs the time of one request."""
        for fetch in list(self._fetches.values()):
            await fetch.stop()
        try:
            await self._persist()
        finally:
            for queue in list(self._fetches):
                self._forget(queue)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the last poll's messages may not be consumed: they come again.
        if error is None and self.is_running:
            self._mark_consumed()
        await self.stop()

    # reading

    async def poll(self, timeout_ms: float = POLL_TIMEOUT_MS, max_messages: int = 32) -> list[StoredMessage]:
        """The next messages, [] when none came in time. Messages of earlier polls count as consumed now."""
        await self._follow_assignment()
        if self._assigned is None and not self._subscriptions:
            raise UsageError("poll() reads nothing", where=self.name, hint="call subscribe(topic) or assign(queues)")
        check_number("timeout_ms", timeout_ms, kind=float)
        check_number("max_messages", max_messages, 1)
        self._mark_consumed()
        until = self._clock.monotonic() + timeout_ms / 1000
        while self.is_running:
            self._commits.save_starts()
            # No await from here to the return: a cancelled poll would lose the messages it has taken.
            messages = self._hand_out(max_messages)
            left = until - self._clock.monotonic()
            if messages or left <= 0:
                return messages
            await self._arrived.wait(left)
        return []

    def _hand_out(self, max_messages: int) -> list[StoredMessage]:
        fetches = list(self._fetches.values())
        self._turn += 1
        messages: list[StoredMessage] = []
        for number in range(len(fetches)):
            # Each poll begins with another queue, so that a busy queue does not starve the others.
            fetch = fetches[(self._turn + number) % len(fetches)]
            if fetch.queue in self._paused or self._commits.holds_back(fetch.queue):
                continue
            if len(messages) < max_messages:
                messages += fetch.take(max_messages - len(messages))
        return messages

    async def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that poll hands out of this queue."""
        return (await self._fetch(queue)).position

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at this offset. Raises UsageError when the queue does not hold it."""
        await self._fetch(queue)
        check_number("offset", offset)
        begin, end = await self._access.begin_of(queue), await self._access.end_of(queue)
        if not begin <= offset <= end:
            raise UsageError(f"offset {offset} is not in {queue}", hint=f"choose one of {begin} to {end}")
        self._move(queue, offset)

    def _move(self, queue: MessageQueue, offset: int) -> None:
        """Look the fetch up again: a rebalance may have given the queue away while brokers were asked."""
        fetch = self._fetches.get(queue)
        if fetch is None:
            raise UsageError(f"{queue} is no longer read by this consumer", hint="choose a queue of `.assignment`")
        self._commits.forget_start(queue)
        fetch.seek(offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on at the oldest message kept, in these queues or in all that are read."""
        await self._follow_assignment()
        for queue in queues or self.assignment:
            await self._fetch(queue)
            self._move(queue, await self._access.begin_of(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on at the next message to come, in these queues or in all that are read."""
        await self._follow_assignment()
        for queue in queues or self.assignment:
            await self._fetch(queue)
            self._move(queue, await self._access.end_of(queue))

    async def offsets_for_time(self, queues: Sequence[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """For each queue the first offset stored at or after this time (epoch ms)."""
        self._must_run()
        check_number("timestamp_ms", timestamp_ms, means="milliseconds since 1970: int(moment.timestamp() * 1000)")
        return {queue: await self._access.by_time(queue, timestamp_ms) for queue in _listed(queues)}

    async def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message kept."""
        self._must_run()
        return await self._access.begin_of(*_listed([queue]))

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""
        self._must_run()
        return await self._access.end_of(*_listed([queue]))

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Hand out nothing of these queues until `resume`."""
        self._paused.update(_listed(queues))

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on after `pause`."""
        self._paused.difference_update(_listed(queues))
        self._arrived.ring()

    # commits

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit now and wait for the brokers: all messages handed out, or these offsets (of the next message)."""
        self._must_run()
        if offsets is None:
            offsets = {queue: fetch.position for queue, fetch in self._fetches.items()}
        check_kind("offsets", offsets, Mapping, hint="give a dict of queues and offsets, or leave it out")
        for queue, offset in zip(_listed(offsets), offsets.values(), strict=True):
            check_number(f"the offset of {queue}", offset, 0)
        await self._commits.commit(offsets)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's offset at the broker; -1 when it never committed."""
        self._must_run()
        return await self._access.committed(*_listed([queue]))

    def _mark_consumed(self) -> None:
        if self.auto_commit:
            for queue, fetch in self._fetches.items():
                self._offsets.update(queue, fetch.position, increase_only=False)

    async def _persist(self) -> None:
        if self.auto_commit:
            await self._offsets.persist(list(self._fetches))

    # QueueOwner

    def queues(self) -> Collection[MessageQueue]:
        """The queues read now."""
        return list(self._fetches)

    def stale_queues(self) -> Collection[MessageQueue]:
        """No queue: a fetch never ends by itself."""
        return ()

    async def take(self, queue: MessageQueue) -> bool:
        """Begin to fetch a queue; false when its first offset is not known now."""
        try:
            await self._take(queue)
        except RocketLakeError as error:
            log.warning("the first offset of %s is not known, next try in the next round: %s", queue, error)
            return False
        return True

    async def _take(self, queue: MessageQueue) -> None:
        self._offsets.forget(queue)
        committed = await self._offsets.read(queue)
        first = committed if committed >= 0 else await self._start_policy.without_commit(queue)
        subscription = self._subscriptions.get(queue.topic)
        if subscription is None or not self.is_running:
            return  # the consumer was stopped, or unsubscribed, while the broker was asked
        if committed < 0:
            self._commits.begin(queue, first)
        self._fetches[queue] = Fetch(
            queue,
            subscription,
            first,
            pull=self._puller.pull,
            by_time=self._access.by_time,
            arrived=self._arrived.ring,
            unregistered=self.instance.heartbeat_soon,
            damaged=self._damage.skip,
            after_break=self.instance.after_break,
            config=self.config,
            clock=self._clock,
            keep=self.keep,
        )

    async def leave(self, queue: MessageQueue) -> bool:
        """End the fetch; save the offset up to which messages are consumed."""
        fetch = self._fetches.get(queue)
        if fetch is None:
            return True  # another call has left the queue
        await fetch.stop()
        self._commits.drop(queue)
        if self.auto_commit:
            await self._offsets.persist([queue])
        self._forget(queue)
        return True

    def _forget(self, queue: MessageQueue) -> None:
        self._fetches.pop(queue, None)
        self._commits.drop(queue)
        self._offsets.forget(queue)

    def assigned(self, topic: str, own: Collection[MessageQueue]) -> None:
        """Only for the log."""
        log.info("group %s reads %d queue(s) of topic %s", self.group, len(own), topic)

    # inside

    def _must_run(self) -> None:
        if not self.is_running:
            raise NotRunning("PullConsumer", self.group, is_over=self.instance.is_closed)

    async def _fetch(self, queue: MessageQueue) -> Fetch:
        _listed([queue])
        await self._follow_assignment()
        fetch = self._fetches.get(queue)
        if fetch is None:
            hint = "call assign() or subscribe() first, and choose a queue of `.assignment`"
            raise UsageError(f"{queue} is not read by this consumer", hint=hint)
        return fetch

    async def _reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if queue in self._fetches and queue.topic == topic:
                self._fetches[queue].seek(offset)
                await self._commits.reset(queue, offset)


def _listed(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    return listed("queues", queues, MessageQueue, hint="take them from `await consumer.fetch_queues(topic)`")
