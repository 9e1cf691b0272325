"""Where a topic lives: which brokers, how many queues on each.

Owns        Route and its parts.
Must not know   how a route is asked for, cached or written to the wire.

Source: Java TopicRouteData, BrokerData, QueueData.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rocketlake.model.topic import Perm

__all__ = ["MASTER_ID", "BrokerInfo", "QueueInfo", "Route"]

MASTER_ID = 0


@dataclass(slots=True)
class BrokerInfo:
    """One group of replicas: broker id -> "ip:port"; id 0 is the master."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone: str | None = None
    enable_acting_master: bool = False

    @property
    def master(self) -> str | None:
        """The master's address, None while there is none."""
        return self.addresses.get(MASTER_ID)


@dataclass(slots=True)
class QueueInfo:
    """A topic's queues on one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int = Perm.READ | Perm.WRITE
    sys_flag: int = 0


@dataclass(slots=True)
class Route:
    """All queues and brokers of a topic. `order_config` is "broker:queues;..." for strictly ordered topics."""

    queues: list[QueueInfo] = field(default_factory=list)
    brokers: list[BrokerInfo] = field(default_factory=list)
    order_config: str | None = None
    filter_servers: dict[str, list[str]] = field(default_factory=dict)
    queue_mappings: Mapping[str, Any] | None = None
    """Static topics: broker name -> mapping, kept as it came."""

    def broker(self, name: str) -> BrokerInfo | None:
        """The broker of this name."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        return None
