"""Proxy: the services on one port, in front of one cluster.

Owns        which parts there are, the order of start and stop.
Must not know   whose process it is in (beside.py, config.py), what the services do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.pure_import import has_kernel
from rocketlake.base.service import Service, stop_each
from rocketlake.net.client import NetClient
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.signing import Sign
from rocketlake.net.inside import InsideNetwork
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import Network, TcpNetwork
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork
from rocketlake.net.tls.settings import TlsChoice
from rocketlake.protocol.limits import FRAME_BYTES_MAX, WireLimits
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.http2.limits import GrpcLimits
from rocketlake.proxy.lites import Lites
from rocketlake.proxy.server import GrpcServer
from rocketlake.proxy.services.acks import Acks
from rocketlake.proxy.services.caller import Callers
from rocketlake.proxy.services.clients import Clients
from rocketlake.proxy.services.messaging import bind
from rocketlake.proxy.services.received import Received
from rocketlake.proxy.services.receives import Receives
from rocketlake.proxy.services.renewals import Renewals
from rocketlake.proxy.services.routes import Routes
from rocketlake.proxy.services.sends import Sends
from rocketlake.proxy.services.transactions import Transactions

__all__ = ["Proxy"]

_CALL_MS: Final = 30_000
"""For callers that give no deadline."""
_MESSAGE_ROOM_BYTES: Final = 64 << 10
_ALPN: Final = ("h2",)
_SEND: Final = "/apache.rocketmq.v2.MessagingService/SendMessage"
_KERNEL: Final = "rocketlake.proxy.convert.plain_messages"
_ACK: Final = "/apache.rocketmq.v2.MessagingService/AckMessage"
_TELEMETRY: Final = "/apache.rocketmq.v2.MessagingService/Telemetry"


class Proxy(Service):
    """One proxy. Start once, stop once."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        name_servers: Sequence[str],
        gate: AccessGate,
        sign: Sign | None,
        tls: TlsChoice,
        body_bytes_max: Callable[[], int],
        connections_of_host: int,
        more: Sequence[Service] = (),
        clock: Clock | None = None,
        network: Network | None = None,
    ) -> None:
        """`sign`: for requests to the cluster. `more`: lives as long as the proxy. `network`: that of a simulation."""
        super().__init__("proxy", clock)
        clock, network = self._clock, network or TcpNetwork()
        self._certificates = Certificates(tls, clock, alpn=_ALPN)
        links = Certificates(tls, clock)
        limits = GrpcLimits(
            message_bytes=body_bytes_max() + _MESSAGE_ROOM_BYTES, connections_of_host=connections_of_host
        )
        self.server = GrpcServer(
            host=host, port=port, clock=clock, network=SecureNetwork(network, self._certificates), limits=limits
        )
        self.network = SecureNetwork(network, links)
        """To and from all but clients of gRPC."""
        self.inside = InsideNetwork(self.network)
        """Brokers of this process are added to it; the cluster is asked through it."""
        net = NetClient(
            NetLimits(wire=WireLimits(header_bytes=FRAME_BYTES_MAX)),
            clock,
            network=self.inside,
            sign=sign,
        )
        self.cluster = Cluster(net, name_servers, clock)
        callers = Callers(gate, clock.monotonic, _CALL_MS)
        self.clients = Clients(self.cluster, callers, clock, body_bytes_max)
        self.transactions = Transactions(self.cluster, self.clients, clock)
        net.serve(self.transactions.handlers())
        net.serve(self._make_services(callers, body_bytes_max).handlers())
        self._parts = (
            *more,
            self._certificates,
            links,
            self.cluster,
            self.clients,
            self.transactions,
            self.renewals,
            self.server,
        )
        """They start in this order, and stop in reverse."""
        self.adopt(*self._parts)

    def _make_services(self, callers: Callers, body_bytes_max: Callable[[], int]) -> Lites:
        """Make those that a call needs, and bind each to its method. Returns the one that brokers ask, too."""
        kept = Limits(body_bytes_max=body_bytes_max())

        def limits() -> Limits:
            nonlocal kept  # one object while nothing changes: plain sends look no further (plain_sends.py)
            if kept.body_bytes_max != (size := body_bytes_max()):
                kept = Limits(body_bytes_max=size)
            return kept

        received = Received(self.cluster)
        self.renewals = renewals = Renewals(received, self.clients.is_connected, self._clock)
        routes, acks = Routes(self.cluster), Acks(received, renewals, limits)
        sends = Sends(self.cluster, self._clock, limits, self.spawn)
        self.receives = receives = Receives(
            self.cluster, received, renewals, limits, self._clock, self.spawn, is_lite=self.clients.is_lite
        )
        lites = Lites(self.cluster, self.clients, limits, self.spawn)

        def left(client_id: str) -> None:
            renewals.client_left(client_id)
            lites.client_left(client_id)

        self.clients.on_left = left
        serves = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": self.clients.heartbeat,
            "NotifyClientTermination": self.clients.terminate,
            "SendMessage": sends.send,
            "AckMessage": acks.acknowledge,
            "ChangeInvisibleDuration": acks.change_invisible,
            "ForwardMessageToDeadLetterQueue": acks.forward_to_dead_letters,
            "EndTransaction": self.transactions.end,
            "RecallMessage": self.transactions.recall,
            "SyncLiteSubscription": lites.sync,
        }
        bind(self.server, callers, serves, {"ReceiveMessage": receives.receive})
        if has_kernel(_KERNEL):
            self._serve_plain_calls(callers, sends, limits)
        self.server.add(_TELEMETRY, self.clients.telemetry, takes_stream=True)
        return lites

    def _serve_plain_calls(self, callers: Callers, sends: Sends, limits: Callable[[], Limits]) -> None:
        """Put the short ways before the ordinary ones."""
        from rocketlake.proxy.services.plain_acks import PlainAcks
        from rocketlake.proxy.services.plain_sends import PlainSends
        from rocketlake.proxy.services.runs import take_answers

        writes = self.server.flushes
        send, ack = (self.server.methods[path.encode()].serve for path in (_SEND, _ACK))
        self.server.add(
            _SEND, PlainSends(self.cluster, callers, sends, limits, self._clock, ordinary=send, writes=writes).serve
        )
        self.server.add(
            _ACK, PlainAcks(self.cluster, callers, self.renewals, self._clock, ordinary=ack, writes=writes).serve
        )
        self.cluster.net.dispatcher.serve_runs(take_answers, ())

    @property
    def address(self) -> str:
        """`host:port` that clients come to."""
        return self.server.address

    async def start(self) -> None:
        """Listen. CannotListen if the address is taken."""
        await super().start()
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        """Send clients elsewhere, then close all links."""
        self.receives.leave()
        server, *others = reversed(self._parts)
        await stop_each(server.stop, super().stop, *[part.stop for part in others])
