"""A new master on another machine while the link of the old one is open: is the old one still there?

Owns        the question to the old master, the request that waits for its answer.
Must not know   who may register (processors/broker.py), how a master is chosen.

Without a controller in this name server nobody tells it who was elected. The link of a machine that hangs or is gone
stays open for minutes. So the old master is asked, at the address that it registered.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.service import Service
from rocketlake.model.route import MASTER_ID
from rocketlake.namesrv.route_table import RouteTable
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.gate.signing import Sign
from rocketlake.net.network import Network
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.bodies.body import BodyError
from rocketlake.protocol.bodies.replicas import HaStatus
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import RegisterBrokerHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Succession"]

_ANSWER_MS = 1000
"""A master that does not answer for so long hangs. Its successor waits meanwhile."""
_VALID_SECONDS = 10.0
"""A registration of many topics may wait so long for its turn."""


class Succession(Service):
    """Asks old masters, each of them once at a time."""

    def __init__(self, routes: RouteTable, clock: Clock, sign: Sign, network: Network) -> None:
        super().__init__("succession", clock)
        self._routes = routes
        self._client = NetClient(clock=clock, network=network, sign=sign)
        self._asked: set[str] = set()
        self._left: dict[str, tuple[str, float]] = {}
        self.adopt(self._client)

    async def start(self) -> None:
        """Ready to ask."""
        await super().start()
        await self._client.start()

    async def stop(self) -> None:
        """End the questions; their registrations are answered by what is known."""
        await super().stop()
        await self._client.stop()

    def has_left(self, name: str, address: str) -> bool:
        """True if the master of this group at this address was asked a moment ago, and is none any more."""
        left, at = self._left.get(name, ("", 0.0))
        return left == address and self._clock.monotonic() - at < _VALID_SECONDS

    def handler(self, serve: Handler) -> Handler:
        """The handler of a registration that `serve` serves: a new master's waits until the old one was asked."""

        def handle(request: Request) -> Reply | Held:
            header = request.header(RegisterBrokerHeader)
            name = header.broker_name
            holder = self._routes.holder(name, MASTER_ID) if header.broker_id == MASTER_ID else None
            if holder is None or holder[0] == header.broker_addr or name in self._asked or not self.is_running:
                return serve(request)
            if holder[1].remote[0] == request.asker.remote[0]:
                return serve(request)
            self._asked.add(name)
            self.spawn(f"is {holder[0]} the master", self._ask(serve, request, name, holder[0]))
            return HELD

        return handle

    async def _ask(self, serve: Handler, request: Request, name: str, address: str) -> None:
        try:
            if not await self._is_master(address):
                self._left[name] = address, self._clock.monotonic()
        finally:
            self._asked.discard(name)
            reply = run_handler(serve, request)
            if isinstance(reply, Reply):
                request.answer(reply)

    async def _is_master(self, address: str) -> bool:
        """False: it says so itself, or does not answer."""
        command = Command.request(RequestCode.GET_BROKER_HA_STATUS)
        try:
            answer = await self._client.invoke(address, command, _ANSWER_MS)
            return answer.code != ResponseCode.SUCCESS or HaStatus.decode(answer.body_bytes).master
        except BodyError:
            return True
        except RocketLakeError:
            return False
