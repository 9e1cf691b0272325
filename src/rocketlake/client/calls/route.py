"""Questions to the name servers: the route of a topic, the brokers of the cluster.

Owns        which name server is asked, and asking the next one when that one fails.
Must not know   what routes are used for.

Rule (RocketMQ): start with a random name server, keep the one that answers, take the next when it does not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask
from rocketlake.model.route import Route
from rocketlake.net.asked import LinkLost
from rocketlake.net.client import NetClient
from rocketlake.net.tls.network import HandshakeFailed
from rocketlake.protocol.bodies.route import ClusterInfo, RouteBody
from rocketlake.protocol.bodies.stats import TopicList
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.namesrv import GetRouteHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

_CURE = "is it running there? `rocketlake up` starts one; `namesrv=` or NAMESRV_ADDR says where it is"
_CURE_OF_CUTS = (
    "something listens there, and ends our connection: is it a name server (port 9876 unless told otherwise; 8081 is"
    " for gRPC clients), and does it encrypt as we do? --tls-config, ROCKETLAKE_TLS_CONFIG or"
    " ClientConfig.tls_config_file names the certificates"
)


class NameServers:
    """The name servers of a cluster; all of them know the same routes."""

    def __init__(self, net: NetClient, addresses: Sequence[str], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self.addresses = tuple(addresses)
        self._net = net
        self._timeout_ms = timeout_ms
        self._chosen = random.randrange(len(self.addresses))

    def turn(self) -> None:
        """Ask the next name server from now on: the present one may be the last to hear of a change."""
        self._chosen = (self._chosen + 1) % len(self.addresses)

    def prefer(self, address: str) -> None:
        """Ask this one first from now on."""
        self._chosen = self.addresses.index(address)

    async def route(self, topic: str, timeout_ms: int | None = None) -> Route | None:
        """The topic's route; None when the name server does not know the topic. Raises LinkError, RemoteError.

        `timeout_ms`: how long each name server may take.
        """
        header = GetRouteHeader(topic=topic, accept_standard_json_only=True)
        answer = await self._ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms, accept=ResponseCode.TOPIC_NOT_EXIST
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return RouteBody.decode(answer.body_bytes).to_model()

    async def cluster(self) -> ClusterInfo:
        """All brokers by cluster and name."""
        answer = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO, None)
        return ClusterInfo.decode(answer.body_bytes)

    async def topics(self) -> list[str]:
        """Names of all topics."""
        answer = await self._ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None)
        return sorted(TopicList.decode(answer.body_bytes).topics)

    async def _ask(
        self,
        code: RequestCode,
        header: Header | None,
        timeout_ms: int | None = None,
        *,
        accept: ResponseCode = ResponseCode.SUCCESS,
    ) -> Command:
        timeout_ms = timeout_ms or self._timeout_ms
        problems: list[str] = []
        is_cut = False
        first = self._chosen
        for address in self.addresses[first:] + self.addresses[:first]:
            # A command belongs to one link; each try makes its own.
            command = Command.request(code, header)
            try:
                return await ask(self._net, address, command, timeout_ms, accept=(ResponseCode.SUCCESS, accept))
            except LinkError as error:
                # Without the cure, and without the address if that is the one asked: the error below names both once.
                problems.append(error.what if error.where in ("", address) else f"{error.what} ({error.where})")
                is_cut = is_cut or isinstance(error, LinkLost | HandshakeFailed)
                if self.addresses[self._chosen] == address:  # else another call has turned away from it
                    self.turn()
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                raise UsageError(
                    f"{address} is not a name server: it does not serve {code.name}",
                    where="name servers " + ";".join(self.addresses),
                    hint="give the address of a name server, port 9876 unless told otherwise: this may be a broker",
                ) from error
        raise LinkError(
            "no name server answers: " + "; ".join(problems),
            where="name server " + ";".join(self.addresses),
            hint=_CURE_OF_CUTS if is_cut else _CURE,
        )
