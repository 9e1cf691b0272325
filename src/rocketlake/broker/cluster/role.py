"""The role of this broker in its group now, master or slave, with its id and address.

Owns        the broker id, which a change of role changes; the identity that name servers and records get.
Must not know   why a role changes, what follows from a change (broker.py).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.cluster.outbound import Identity
from rocketlake.broker.config import LiveConfig

__all__ = ["MASTER_ID", "Role"]

MASTER_ID = 0
_NO_ID = -1
"""Of a broker that waits for its controller: no master, and not to be registered."""


class Role:
    """The role of one broker."""

    def __init__(self, config: LiveConfig, host: str, port: Callable[[], int]) -> None:
        """`host`, `port`: where clients find this broker; the port is known when the broker listens."""
        self.broker_id = _NO_ID if config.now.controller_mode else config.now.broker_id
        self.pause = ""
        """Why this master takes no messages now; "" if it does."""
        self.is_changing = False
        """True while CHANGE_ROLE is served."""
        self.host = host
        self.ha_port: Callable[[], int] = lambda: port() + 1
        """Where slaves connect; of a broker without such a port, where RocketMQ's would look for it."""
        self._config = config
        self._port = port

    @property
    def is_master(self) -> bool:
        """True while this broker takes messages."""
        return self.broker_id == MASTER_ID

    @property
    def now(self) -> str:
        """MASTER, SLAVE, or CHANGING: one that may be a master in a moment."""
        return "MASTER" if self.is_master else "CHANGING" if self.is_changing else "SLAVE"

    @property
    def is_known(self) -> bool:
        """True if this broker has an id under which name servers may know it."""
        return self.broker_id != _NO_ID

    @property
    def broker_name(self) -> str:
        """The name that a master and its slaves share."""
        return self._config.now.broker_name

    @property
    def cluster_name(self) -> str:
        """The cluster that the group belongs to."""
        return self._config.now.cluster_name

    @property
    def refusal(self) -> str:
        """The reason that a client gets whose request only a master serves."""
        if self.is_master and self.pause:
            return self.pause
        return f"this broker is a slave (brokerId {self.broker_id}): ask the master of {self._config.now.broker_name}"

    def address(self) -> tuple[str, int]:
        """(host, port) under which clients find this broker; part of message ids."""
        return self.host, self._port()

    def identity(self) -> Identity:
        """The names and addresses that name servers get."""
        config = self._config.now
        host, port = self.address()
        ha_address = f"{config.ha_advertised_host or host}:{self.ha_port()}"
        return Identity(config.cluster_name, config.broker_name, self.broker_id, f"{host}:{port}", ha_address)
