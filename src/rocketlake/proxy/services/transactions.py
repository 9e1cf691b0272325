"""EndTransaction, RecallMessage; and the brokers' questions about transactions, which go on to producers.

Owns        the ends of transactions, the heartbeats by which brokers know whom to ask, the choice of a producer that is
            told of an orphan.
Must not know   the text of a transaction's id (convert/end.py).

A transaction's id names its half message: any proxy can end it, and none keeps it.
"""

from __future__ import annotations

import os
from typing import Any, Final

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.client.calls import group as group_calls
from rocketlake.client.calls.pull import decode_messages
from rocketlake.model import property_names as names
from rocketlake.net.request import Handler, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import RecallReplyHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.end import end, orphan, recall
from rocketlake.proxy.convert.names import topic_of
from rocketlake.proxy.convert.refusal import status
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.services.clients import Client, Clients
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Transactions"]

_log: Final = get_logger(__name__)

_HEARTBEAT_SECONDS: Final = 20.0


class Transactions(Service):
    """Of one proxy."""

    def __init__(self, cluster: Cluster, clients: Clients, clock: Clock) -> None:
        super().__init__("proxy-transactions", clock)
        self._cluster = cluster
        self._clients = clients
        self._warnings = RareWarnings(_log, clock=self._clock)
        self._client_id = f"rocketlake-proxy@{os.getpid()}@{clock.now_ms()}"
        clients.on_producer = self._producer_came

    async def start(self) -> None:
        """Tell brokers for which topics producers are here, from now on."""
        await super().start()
        self.every("heartbeats", _HEARTBEAT_SECONDS, self._heartbeats)

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def end(self, caller: Caller, request: Any) -> Any:
        """EndTransaction."""
        topic = topic_of(request.topic)
        caller.need(on_topic(topic, Action.PUB))
        broker_name, header = end(request)
        await self._cluster.ask_master(
            topic, broker_name, lambda: Command.request(RequestCode.END_TRANSACTION, header), ASK_MS
        )
        return v2.EndTransactionResponse(status=status(v2.Code.OK))

    async def recall(self, caller: Caller, request: Any) -> Any:
        """RecallMessage."""
        topic = topic_of(request.topic)
        caller.need(on_topic(topic, Action.PUB))
        broker_name, header = recall(request)
        answer = await self._cluster.ask_master(
            topic, broker_name, lambda: Command.request(RequestCode.RECALL_MESSAGE, header), ASK_MS
        )
        message_id = answer.header(RecallReplyHeader).msg_id
        return v2.RecallMessageResponse(status=status(v2.Code.OK), message_id=message_id)

    # -- orphans -------------------------------------------------------------------------------------------------------

    def handlers(self) -> dict[int, Handler]:
        """What serves the requests of brokers, by code."""
        return {RequestCode.CHECK_TRANSACTION_STATE: self._check}

    def _check(self, request: Request) -> Reply:
        """A broker asks how a transaction ended: a producer of its topic is told that it is an orphan."""
        question = request.header(CheckTransactionHeader)
        message = decode_messages(request.body, None, request.address)[0]
        topic = message.properties.get(names.PRODUCER_GROUP) or message.topic
        broker_name = question.target_broker or ""
        producer = next(self._clients.producers_of(topic), None)
        if producer is None or producer.stream is None:
            self._warnings.warn(topic, "no producer of topic %s is here to tell how a transaction ended", topic)
            return Reply()
        producer.stream.write(orphan(question, message, broker_name).SerializeToString())
        return Reply()

    def _producer_came(self, client: Client) -> None:
        self.spawn("heartbeat", self._tell(set(client.topics)))

    async def _heartbeats(self) -> None:
        await self._tell({topic for client in self._clients.known.values() for topic in client.topics})

    async def _tell(self, topics: set[str]) -> None:
        """Heartbeats to the brokers of those topics that take transactions, one for each broker."""
        producers: dict[str, set[str]] = {}
        for topic in sorted(topics):
            try:
                if v2.MessageType.TRANSACTION in await self._cluster.types(topic):
                    for broker in (await self._cluster.route(topic)).brokers:
                        if broker.master is not None:
                            producers.setdefault(broker.master, set()).add(topic)
            except RocketLakeError:  # of this topic: the others are told
                continue
        for address, groups in producers.items():
            body = group_calls.heartbeat_body(self._client_id, sorted(groups), ())
            try:
                await group_calls.heartbeat(self._cluster.net, address, body)
            except RocketLakeError as error:
                self._warnings.warn(address, "no heartbeat to %s: %s", address, error)
