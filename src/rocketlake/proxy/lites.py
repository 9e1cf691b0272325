"""SyncLiteSubscription: which lite topics a client subscribes to; and the word of brokers that one is another's now.

Owns        what brokers are told of it, and when a client goes.
Must not know   what brokers do with it, how lite messages are received (receives.py).

A lite topic lies on one broker, which its senders choose. So each broker of the parent is told of each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.net.request import Handler, Reply, Request
from rocketlake.protocol.bodies.lite import (
    LiteAction,
    LiteOffset,
    LiteOffsetKind,
    LiteSubscription,
    LiteSubscriptionBody,
)
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.lite import NotifyUnsubscribeLiteHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.outgoing import check_lite_topic
from rocketlake.proxy.convert.refusal import Refused, status
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.services.clients import Clients
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Lites"]

_log: Final = get_logger(__name__)
_CLIENTS_MAX: Final = 50_000


@dataclass(frozen=True, slots=True)
class _Subscribed:
    group: str
    topic: str


class Lites:
    """Tells brokers."""

    def __init__(
        self,
        cluster: Cluster,
        clients: Clients,
        limits: Callable[[], Limits],
        spawn: Callable[..., Any],
        *,
        clients_max: int = _CLIENTS_MAX,
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._limits = limits
        self._spawn = spawn
        self._clients_max = clients_max
        self._subscribed: dict[str, _Subscribed] = {}
        """By client id, in the order of their last word."""
        self._warnings = RareWarnings(_log)

    async def sync(self, caller: Caller, request: Any) -> Any:
        """SyncLiteSubscription."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        for name in request.lite_topic_set:
            check_lite_topic(name, self._limits())
        action = LiteAction(v2.LiteSubscriptionAction(request.action).name)
        if action is LiteAction.COMPLETE_REMOVE:
            self._subscribed.pop(caller.client_id, None)
        else:
            self._note(caller.client_id, _Subscribed(group, topic))
        offset = _offset_of(request.offset_option) if request.HasField("offset_option") else None
        await self._tell(
            LiteSubscription(
                action=action,
                client_id=caller.client_id,
                group=group,
                topic=topic,
                lite_topic_set=list(request.lite_topic_set),
                offset_option=offset,
                version=request.version,
            )
        )
        return v2.SyncLiteSubscriptionResponse(status=status(v2.Code.OK))

    def _note(self, client_id: str, subscribed: _Subscribed) -> None:
        self._subscribed.pop(client_id, None)
        if len(self._subscribed) >= self._clients_max:
            # The one that has been silent for longest: clients tell their whole set each 30 seconds.
            del self._subscribed[next(iter(self._subscribed))]
        self._subscribed[client_id] = subscribed

    def handlers(self) -> dict[int, Handler]:
        """What serves the requests of brokers, by code."""
        return {RequestCode.NOTIFY_UNSUBSCRIBE_LITE: self._taken}

    def _taken(self, request: Request) -> Reply:
        """A lite topic is another client's of the group: the one that had it is told."""
        header = request.header(NotifyUnsubscribeLiteHeader)
        command = v2.NotifyUnsubscribeLiteCommand(lite_topic=header.lite_topic)
        if not self._clients.tell(header.client_id, v2.TelemetryCommand(notify_unsubscribe_lite_command=command)):
            self._warnings.warn(
                header.consumer_group, "a client of group %s that lost a lite topic is not here", header.consumer_group
            )
        return Reply()

    def client_left(self, client_id: str) -> None:
        """The client has said that it goes."""
        found = self._subscribed.pop(client_id, None)
        if found is not None:
            self._spawn("lite subscriptions", self._remove(client_id, found))

    async def _remove(self, client_id: str, found: _Subscribed) -> None:
        try:
            await self._tell(
                LiteSubscription(
                    action=LiteAction.COMPLETE_REMOVE, client_id=client_id, group=found.group, topic=found.topic
                )
            )
        except RocketLakeError as error:  # brokers forget a silent client by themselves
            self._warnings.warn("left", "a client that left is still subscribed to lite topics: %s", error)

    async def _tell(self, subscription: LiteSubscription) -> None:
        body = LiteSubscriptionBody(subscription_set=[subscription]).encode()
        topic = subscription.topic
        brokers = sorted({queue.broker_name for queue in await self._cluster.to_read(topic)})
        await asyncio.gather(
            *[
                self._cluster.ask_master(
                    topic, broker, lambda: Command.request(RequestCode.LITE_SUBSCRIPTION_CTL, body=body), ASK_MS
                )
                for broker in brokers
            ]
        )


def _offset_of(option: Any) -> LiteOffset:
    kind = option.WhichOneof("offset_type")
    if kind == "offset":
        return LiteOffset(type=LiteOffsetKind.OFFSET, value=option.offset)
    if kind == "tail_n":
        return LiteOffset(type=LiteOffsetKind.TAIL_N, value=option.tail_n)
    if kind == "policy":
        return LiteOffset(type=LiteOffsetKind.POLICY, value=option.policy)
    raise Refused(v2.Code.ILLEGAL_OFFSET, "a lite subscription cannot begin at a time: name an offset or a policy")
