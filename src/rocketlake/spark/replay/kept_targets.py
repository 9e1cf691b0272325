"""The queues of the target that a replay has used, kept by the name servers in case its record is lost.

Owns        the KV setting of a replay, its form.
Must not know   messages, how a plan treats a queue that is away (plan.py).

A run cannot find a copy in a queue that is out of reach. So a replay names each queue here before the first copy goes
into it. If the name servers do not keep the names, a warning says so, and only the record on disk protects the replay.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import ClientInstance, ask
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import GetKvHeader, GetKvReplyHeader, PutKvHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["KeptTargets"]

log = get_logger(__name__)
_NAMESPACE = "ROCKETLAKE_REPLAY"
_TIMEOUT_MS = 3000


class KeptTargets:
    """The queues of one replay's target; `await targets.load()` before all else."""

    def __init__(self, client: ClientInstance, request: ReplayRequest) -> None:
        self._client = client
        self._topic = request.target
        self._key = request.identity
        self.queues: set[MessageQueue] = set()

    async def load(self) -> None:
        """Read the queues from all name servers."""
        for address in self._client.name_servers.addresses:
            command = Command.request(RequestCode.GET_KV_CONFIG, GetKvHeader(kv_namespace=_NAMESPACE, key=self._key))
            try:
                found = await ask(
                    self._client.net, address, command, _TIMEOUT_MS,
                    accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
                )  # fmt: skip
                if found.code == ResponseCode.SUCCESS:
                    self.queues |= self._parsed(found.header(GetKvReplyHeader).value or "{}")
            except (LinkError, RemoteError, ValueError, AttributeError, TypeError) as error:
                log.warning("name server %s does not tell which queues this replay has used: %s", address, error)

    def _parsed(self, text: str) -> set[MessageQueue]:
        brokers = json.loads(text).items()
        return {MessageQueue(self._topic, broker, int(number)) for broker, numbers in brokers for number in numbers}

    async def add(self, queues: Collection[MessageQueue]) -> None:
        """Add these queues at all name servers."""
        if self.queues.issuperset(queues):
            return
        self.queues |= set(queues)
        by_broker: dict[str, list[int]] = {}
        for queue in sorted(self.queues):
            by_broker.setdefault(queue.broker_name, []).append(queue.queue_id)
        header = PutKvHeader(kv_namespace=_NAMESPACE, key=self._key, value=json.dumps(by_broker))
        for address in self._client.name_servers.addresses:
            try:
                await ask(self._client.net, address, Command.request(RequestCode.PUT_KV_CONFIG, header), _TIMEOUT_MS)
            except (LinkError, RemoteError) as error:
                log.warning("name server %s does not keep which queues this replay uses: %s", address, error)
