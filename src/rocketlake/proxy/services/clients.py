"""Telemetry, Heartbeat, NotifyClientTermination: the clients that are connected, and their settings.

Owns        the table of clients by id, the stream over which each of them is told something, when one is forgotten.
Must not know   how messages are sent and received: these calls need no earlier state here, as a client may come to
            another proxy with each of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.service import Service
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.refusal import Refused, status, status_of
from rocketlake.proxy.convert.settings import of_consumer, of_producer
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.http2.framing import CallFailed, GrpcStatus
from rocketlake.proxy.services.caller import Caller, Callers
from rocketlake.proxy.services.messaging import read
from rocketlake.proxy.v2 import messages as v2

__all__ = ["TOPICS_MAX", "Client", "Clients"]

_FORGET_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 5.0
_CLIENTS_MAX: Final = 50_000
TOPICS_MAX: Final = 10_000
"""Of one client. Of each that a producer names the cluster is asked before each round of heartbeats."""
LITE_CONSUMERS: Final = frozenset((v2.ClientType.LITE_PUSH_CONSUMER, v2.ClientType.LITE_SIMPLE_CONSUMER))
_CONSUMERS: Final = LITE_CONSUMERS | frozenset((
    v2.ClientType.PUSH_CONSUMER,
    v2.ClientType.SIMPLE_CONSUMER,
))  # fmt: skip


@dataclass(slots=True)
class Client:
    """A client that has told its settings."""

    id: str
    kind: int
    group: str = ""
    topics: frozenset[str] = frozenset()
    """Those that a producer sends to."""
    seen: float = 0.0
    stream: Call | None = None
    """Telemetry: commands go here."""


class Clients(Service):
    """All clients of one proxy."""

    def __init__(self, cluster: Cluster, callers: Callers, clock: Clock, body_bytes_max: Callable[[], int]) -> None:
        super().__init__("proxy-clients", clock)
        self._cluster = cluster
        self._callers = callers
        self._body_bytes_max = body_bytes_max
        self.known: dict[str, Client] = {}
        self.on_producer: Callable[[Client], object] = lambda _: None
        """Told of each producer that tells its settings."""
        self.on_left: Callable[[str], object] = lambda _: None
        """Told the id of each client that says that it goes."""

    async def start(self) -> None:
        """Forget those that are silent, from now on."""
        await super().start()
        self.every("sweep", _SWEEP_SECONDS, self._sweep)

    # -- unary calls ---------------------------------------------------------------------------------------------------

    async def heartbeat(self, caller: Caller, request: Any) -> Any:
        """Heartbeat."""
        client = self.known.get(caller.client_id)
        if request.client_type in _CONSUMERS:
            group = group_of(request.group)
            caller.need(on_group(group, Action.SUB))
        if client is None:
            raise Refused(v2.Code.UNRECOGNIZED_CLIENT_TYPE, "tell your settings first, by Telemetry")
        client.seen = self._clock.monotonic()
        return v2.HeartbeatResponse(status=status(v2.Code.OK))

    async def terminate(self, caller: Caller, request: Any) -> Any:
        """NotifyClientTermination."""
        if request.HasField("group") and request.group.name:
            caller.need(on_group(group_of(request.group), Action.SUB))
        self._forget(caller.client_id)
        self.on_left(caller.client_id)
        return v2.NotifyClientTerminationResponse(status=status(v2.Code.OK))

    # -- the stream ----------------------------------------------------------------------------------------------------

    def telemetry(self, call: Call, message: bytes) -> None:
        """Telemetry: one command of a client."""
        command = read(v2.TelemetryCommand, message)
        kind = command.WhichOneof("command")
        if kind == "settings":
            self.spawn("settings", self._settings(call, command.settings))
        elif kind not in ("verify_message_result", "thread_stack_trace"):  # no client is asked for these
            raise CallFailed(GrpcStatus.INVALID_ARGUMENT, "a command of a client is settings, or a result")

    async def _settings(self, call: Call, given: Any) -> None:
        try:
            caller = self._callers.of(call)
            client, answer = await self._told(caller, given)
        except RocketLakeError as error:
            told = status_of(error)
            is_callers = v2.Code.BAD_REQUEST <= told.code < v2.Code.INTERNAL_ERROR
            call.end(GrpcStatus.INVALID_ARGUMENT if is_callers else GrpcStatus.INTERNAL, told.message)
            return
        if call.is_over:
            return
        if client.stream is not call:
            client.stream = call
            call.on_over.append(lambda _: self._stream_over(client, call))
            call.on_drain.append(Call.end)
        reply = v2.TelemetryCommand(status=status(v2.Code.OK), settings=answer)
        call.write(reply.SerializeToString())

    async def _told(self, caller: Caller, given: Any) -> tuple[Client, Any]:
        kind = given.WhichOneof("pub_sub")
        if kind == "publishing":
            topics = _topics_of(given.publishing.topics)
            caller.need(*[on_topic(topic, Action.PUB) for topic in sorted(topics)])
            client = self._know(caller.client_id, v2.ClientType.PRODUCER)
            client.topics = topics
            self.on_producer(client)
            return client, of_producer(given, self._body_bytes_max())
        if kind == "subscription":
            group = group_of(given.subscription.group)
            topics = _topics_of([entry.topic for entry in given.subscription.subscriptions])
            caller.need(on_group(group, Action.SUB), *[on_topic(topic, Action.SUB) for topic in sorted(topics)])
            for topic in topics:  # so that a broker is known that is asked about the group
                await self._cluster.route(topic)
            settings = await self._cluster.group(group)
            client = self._know(caller.client_id, given.client_type)
            client.group = group
            return client, of_consumer(given, settings)
        raise Refused(v2.Code.BAD_REQUEST, "settings are those of a producer or of a consumer")

    def _know(self, client_id: str, kind: int) -> Client:
        client = self.known.get(client_id)
        if client is None:
            if len(self.known) >= _CLIENTS_MAX:
                raise Refused(v2.Code.TOO_MANY_REQUESTS, f"{len(self.known)} clients are connected, no more are taken")
            client = self.known[client_id] = Client(client_id, kind)
        client.kind = kind
        client.seen = self._clock.monotonic()
        return client

    def is_connected(self, client_id: str) -> bool:
        """True while the client has its stream open."""
        client = self.known.get(client_id)
        return client is not None and client.stream is not None

    def is_lite(self, client_id: str) -> bool:
        """True if the client consumes lite topics."""
        client = self.known.get(client_id)
        return client is not None and client.kind in LITE_CONSUMERS

    def tell(self, client_id: str, command: Any) -> bool:
        """Send a client of a group a `v2.TelemetryCommand`; False if it is not here."""
        client = self.known.get(client_id)
        if client is None or client.stream is None:
            return False
        client.stream.write(command.SerializeToString())
        return True

    def producers_of(self, topic: str) -> Iterator[Client]:
        """Producers of this topic that can be told something, in a random order."""
        found = [each for each in self.known.values() if topic in each.topics and each.stream is not None]
        random.shuffle(found)
        yield from found

    # -- the end -------------------------------------------------------------------------------------------------------

    def _stream_over(self, client: Client, call: Call) -> None:
        if client.stream is call:
            client.stream = None
            client.seen = self._clock.monotonic()

    def _forget(self, client_id: str) -> None:
        client = self.known.pop(client_id, None)
        if client is not None and client.stream is not None:
            client.stream.end()

    def _sweep(self) -> None:
        silent_since = self._clock.monotonic() - _FORGET_SECONDS
        for client in list(self.known.values()):
            if client.stream is None and client.seen < silent_since:
                self._forget(client.id)


def _topics_of(resources: Sequence[Any]) -> frozenset[str]:
    """The topics that settings name. Refused."""
    if len(resources) > TOPICS_MAX:
        raise Refused(v2.Code.BAD_REQUEST, f"a client names {len(resources)} topics, {TOPICS_MAX} at most are taken")
    return frozenset(topic_of(resource) for resource in resources)
