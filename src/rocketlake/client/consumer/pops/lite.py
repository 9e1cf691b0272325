"""The simple consumer of lite topics: you say which, receive their messages for a while, and acknowledge each one.

Owns        which lite topics the consumer subscribes to, which brokers know it.
Must not know   how requests look (calls/), the life of the consumer and of a receive (receiving.py).

A lite topic lies on one broker, which its senders choose. So each broker of the parent is told of each change. One that
may have forgotten the set is told it anew before the next pop: after a change of the master, or when the link to it is
another one. All are told it each 30 seconds, as by the clients of gRPC: brokers forget a client that is silent.

In an exclusive group a broker tells when another client takes a lite topic. Its word is not heeded for one that is
being subscribed to: it is about the time before, or it comes again with the next whole set.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Unpack

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.settings.arguments import check_kind
from rocketlake.client.calls.answer import is_of_another_master
from rocketlake.client.calls.pop import PopAnswer
from rocketlake.client.config import FirstOffset
from rocketlake.client.consumer.filters import subscription_of
from rocketlake.client.consumer.group_consumer import LinkSettings, spelled_out, with_defaults
from rocketlake.client.consumer.pops.lite_access import LiteAccess
from rocketlake.client.consumer.pops.receiving import Place, ReceivingConsumer
from rocketlake.model import names
from rocketlake.model.lite import LITE_CHARS_MAX, is_lite_name
from rocketlake.model.subscription import TAG
from rocketlake.protocol.bodies.lite import LiteAction, LiteOffset

__all__ = ["LiteSimpleConsumer"]

log = get_logger(__name__)
_SAY_SECONDS = 30.0
_ROUND_MS, _TURN_MS_MIN = 1000, 200
"""A message waits for the first while the consumer waits at the other brokers; it waits for the second at each."""
_BEGIN = {FirstOffset.FIRST: LiteOffset(value=1), FirstOffset.LAST: LiteOffset(value=2)}


class LiteSimpleConsumer(ReceivingConsumer[LiteAccess]):
    """`await subscribe_lite("a")`, `await receive()`, do the work, `await ack(message)`.

    `topic`: the parent, to which the group is bound. Each lite topic is read in order: its next message comes when the
    one before it is acknowledged. What is not acknowledged in time comes again. In a wildcard group it receives from
    all lite topics, and subscribes to none.
    """

    @spelled_out(LinkSettings)
    def __init__(self, group: str, topic: str, **settings: Unpack[LinkSettings]) -> None:
        super().__init__("lite consumer", group, with_defaults(settings), LiteAccess)
        names.check_topic(topic)
        self._parent = topic
        self._subscriptions[topic] = subscription_of(topic, "*", TAG, self.instance.new_version())
        self._lites: set[str] = set()
        self._told: dict[str, tuple[str | None, object]] = {}
        """By broker that knows the whole set: its master, and the link by which it was told."""
        self._coming: Counter[str] = Counter()
        """Lite topics that are being subscribed to."""
        self._missed: dict[str, set[str]] = {}
        """By broker that was away: what was subscribed to meanwhile. A whole set takes nothing from other clients."""

    @property
    def lite_topics(self) -> frozenset[str]:
        """What it subscribes to; without those that another client of an exclusive group has taken."""
        return frozenset(self._lites)

    async def subscribe_lite(self, *lite_topics: str, from_where: FirstOffset | str | None = None) -> None:
        """Receive from these, too. `from_where` moves the group there: "first", or "last", behind the last message.

        None: it goes on where it is; a new group begins at the first message. RemoteError: a broker refuses, as above
        the quota (code 42902); then none of them is subscribed to. A broker that is away is told later.
        """
        self._check_running()
        self._check_names(lite_topics)
        begin = None
        if from_where is not None and (begin := _BEGIN.get(FirstOffset.of(from_where))) is None:
            raise UsageError("a lite topic cannot begin at a time", hint='use from_where="first" or "last"')
        new = set(lite_topics) - self._lites
        self._lites |= new
        self._coming.update(lite_topics)
        try:
            await self._tell(LiteAction.PARTIAL_ADD, lite_topics, begin)
        except RocketLakeError:
            self._lites -= new
            self._told.clear()  # some brokers may have taken it
            raise
        finally:
            self._coming.subtract(lite_topics)
            self._coming = +self._coming

    async def unsubscribe_lite(self, *lite_topics: str) -> None:
        """Receive from these no longer. What is in flight may be acknowledged still."""
        self._check_running()
        self._check_names(lite_topics)
        self._lites -= set(lite_topics)
        await self._tell(LiteAction.PARTIAL_REMOVE, lite_topics)

    def _check_names(self, lite_topics: Collection[str]) -> None:
        where = f"LiteSimpleConsumer of group {self.group!r}"
        for name in lite_topics:
            check_kind("a lite topic", name, str, where=where, hint='name them one after the other: "a", "b"')
            if not is_lite_name(name):
                raise UsageError(
                    f"{name[:80]!r} is no name of a lite topic",
                    where=where,
                    hint=f"use 1 to {LITE_CHARS_MAX} letters, digits, - and _",
                )

    # what brokers know

    async def _join(self) -> None:
        await self._tell(LiteAction.COMPLETE_ADD, ())
        await super()._join()  # behind it: a heartbeat makes a group that a name is wrong of
        self.every("lite topics", _SAY_SECONDS, self._say_anew)

    async def _leave(self) -> None:
        self._lites.clear()
        try:
            await self._tell(LiteAction.COMPLETE_REMOVE, ())
        except RocketLakeError as error:  # brokers forget a silent client by themselves
            log.info("group %s has left, and a broker was not told: %s", self.group, error)
        await super()._leave()

    async def _brokers(self) -> list[str]:
        return sorted({queue.broker_name for queue in await self.instance.queues_to_read(self._parent) or ()})

    async def _tell(self, action: LiteAction, lites: Collection[str], begin: LiteOffset | None = None) -> None:
        async def tell(broker_name: str) -> None:
            try:
                await self._pops.subscribe(broker_name, self._parent, action, lites, begin)
            except (LinkError, RemoteError) as error:
                if not is_of_another_master(error):
                    raise
                self._told.pop(broker_name, None)
                if action is LiteAction.PARTIAL_ADD:
                    self._missed.setdefault(broker_name, set()).update(lites)
                log.info("group %s tells broker %s later what it subscribes to: %s", self.group, broker_name, error)

        await asyncio.gather(*map(tell, await self._brokers()))

    async def _say(self, broker_name: str) -> None:
        """Tell a broker the whole set, until it is the one that counts."""
        missed = self._missed.setdefault(broker_name, set())
        if coming := missed & self._lites:
            await self._pops.subscribe(broker_name, self._parent, LiteAction.PARTIAL_ADD, coming)
            missed -= coming
        said = None
        while said != self._lites:
            said = set(self._lites)
            await self._pops.subscribe(broker_name, self._parent, LiteAction.COMPLETE_ADD, said)
        self._told[broker_name] = self._reached(broker_name)

    async def _say_anew(self) -> None:
        for broker_name in await self._brokers():
            try:
                await self._say(broker_name)
            except RocketLakeError as error:
                self._told.pop(broker_name, None)
                log.warning("group %s has not told %s what it subscribes to: %s", self.group, broker_name, error)

    def _lite_taken(self, lite: str) -> None:
        if lite in self._lites and not self._coming[lite]:
            self._lites.discard(lite)
            log.info("another client of group %s has taken lite topic %s", self.group, lite)

    def _reached(self, broker_name: str) -> tuple[str | None, object]:
        address = self.instance.routes.master(broker_name)
        return address, None if address is None else self.instance.net.link(address)

    # messages

    async def _pop(self, place: Place, max_messages: int, invisible_ms: int, poll_ms: int) -> PopAnswer:
        broker_name = place.queue.broker_name
        if self._told.get(broker_name) != self._reached(broker_name):
            await self._say(broker_name)
        return await self._pops.pop_lite(
            place.queue, max_messages=max_messages, invisible_ms=invisible_ms, poll_ms=poll_ms
        )

    def _poll_ms(self, places: Sequence[Place], left_ms: int) -> int:
        return left_ms if len(places) == 1 else min(left_ms, max(_TURN_MS_MIN, _ROUND_MS // max(1, len(places))))
