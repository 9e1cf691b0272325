"""A client of gRPC v2 for tests: requests as messages, one connection, no thread."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rocketlake.proxy.convert.times import duration
from rocketlake.proxy.proxy import Proxy
from rocketlake.proxy.v2 import messages as v2
from tests.http2_peer import Peer

SERVICE = "/apache.rocketmq.v2.MessagingService/"
TIME = "20261126T120000Z"


class GrpcClient:
    """Calls are made one after the other, or begun with `begin`."""

    def __init__(self, peer: Peer, client_id: str, user: tuple[str, str] | None = None) -> None:
        self.peer = peer
        self.headers = [(b"x-mq-client-id", client_id.encode()), (b"x-mq-date-time", TIME.encode())]
        if user is not None:
            proof = hmac.new(user[1].encode(), TIME.encode(), hashlib.sha1).hexdigest().upper()
            signed = f"MQv2-HMAC-SHA1 Credential={user[0]}, SignedHeaders=x-mq-date-time, Signature={proof}"
            self.headers.append((b"authorization", signed.encode()))
        self.endpoints: Any = None

    async def begin(self, name: str, request: Any, deadline: bytes = b"30S") -> int:
        stream = self.peer.ask(SERVICE + name, request.SerializeToString(), *self.headers, (b"grpc-timeout", deadline))
        await self.peer.flush()
        return stream

    async def end(self, name: str, stream: int) -> list[Any]:
        kind = v2.METHODS[SERVICE + name].response
        answer = await self.peer.over(stream)
        assert answer.status == 0, answer.text
        return [kind.FromString(message) for message in answer.messages]

    async def call(self, name: str, request: Any) -> Any:
        """The only message of the answer."""
        (response,) = await self.end(name, await self.begin(name, request))
        return response

    def sending(self, topic: str, body: bytes, **system: Any) -> Any:
        properties = v2.SystemProperties(message_id=f"id of {body.decode()}", **system)
        message = v2.Message(topic=v2.Resource(name=topic), system_properties=properties, body=body)
        return v2.SendMessageRequest(messages=[message])

    async def send(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        return await self.call("SendMessage", self.sending(topic, body, **system))

    def receiving(self, topic: str, group: str, seconds: int = 20, *, auto_renew: bool = False) -> Any:
        return v2.ReceiveMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=topic)),
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
            batch_size=32,
            invisible_duration=duration(10_000),
            long_polling_timeout=duration(seconds * 1000),
            auto_renew=auto_renew,
        )

    async def receive(self, topic: str, group: str, seconds: int = 20) -> list[Any]:
        """The messages of one receive."""
        responses = await self.end(
            "ReceiveMessage", await self.begin("ReceiveMessage", self.receiving(topic, group, seconds))
        )
        return [response.message for response in responses if response.WhichOneof("content") == "message"]

    async def ack(self, topic: str, group: str, *messages: Any) -> Any:
        entries = [
            v2.AckMessageEntry(
                message_id=each.system_properties.message_id,
                receipt_handle=each.system_properties.receipt_handle,
                lite_topic=each.system_properties.lite_topic or None,
            )
            for each in messages
        ]
        return await self.call(
            "AckMessage",
            v2.AckMessageRequest(group=v2.Resource(name=group), topic=v2.Resource(name=topic), entries=entries),
        )


@asynccontextmanager
async def client_of(
    proxy: Proxy, client_id: str = "client", user: tuple[str, str] | None = None
) -> AsyncIterator[GrpcClient]:
    """A connected client."""
    async with await Peer.connect(proxy.server.port) as peer:
        yield GrpcClient(peer, client_id, user)


async def until(condition: Any) -> None:
    """Awaits the condition; the test's own limit ends it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
