"""How clients reach servers: the settings of a client -> a NetClient that encrypts and signs as they say.

Owns        what each client of this process is given: its network, the user it signs as.
Must not know   who asks, and what.

The one place where clients of settings are made: what all of them need comes in here.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.base.clock import Clock
from rocketlake.client.config import ClientConfig
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.net.network import Network, TcpNetwork
from rocketlake.net.request import Handler
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork

__all__ = ["net_client"]


def net_client(
    config: ClientConfig | None = None,
    clock: Clock | None = None,
    handlers: Mapping[int, Handler] | None = None,
    network: Network | None = None,
) -> NetClient:
    """A client by these settings, else by those of the environment. UsageError: its certificates or its
    credentials cannot be used.

    `network`: of a simulation. `handlers` serve the requests that servers send.
    """
    config = config or ClientConfig()
    secure = SecureNetwork(network or TcpNetwork(), Certificates(config.tls, clock))
    user = config.user
    return NetClient(
        None,
        clock,
        handlers,
        network=secure,
        sign=None if user is None else signing(lambda: user),
        way=secure.way if network is None else None,
    )
