"""The brokers of a cluster: where they serve, their figures and settings.

Owns        the requests for these.
Must not know   what a figure or a setting means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.results import BrokerState
from rocketlake.base.errors import NotThereError, RocketLakeError
from rocketlake.base.settings.config_file import parse_properties, to_properties
from rocketlake.client.calls.answer import ask
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Brokers"]


class Brokers:
    """Questions to single brokers. Raises LinkError, RemoteError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def states(self) -> list[BrokerState]:
        """All brokers, masters and slaves, sorted by cluster, name and id. One that does not answer tells why."""
        found = sorted(await self._cluster.brokers(), key=lambda each: (each.cluster, each.name))
        asking = [
            self._state(entry.cluster, entry.name, broker_id, address)
            for entry in found
            for broker_id, address in sorted(entry.addresses.items())
        ]
        return list(await asyncio.gather(*asking))

    async def _state(self, cluster: str, name: str, broker_id: int, address: str) -> BrokerState:
        try:
            answer = await ask(self._cluster.net, address, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        except RocketLakeError as error:
            return BrokerState(cluster, name, broker_id, address, {}, error.what)
        return BrokerState(cluster, name, broker_id, address, KVTable.decode(answer.body_bytes).table)

    async def figures(self, name: str, broker_id: int = 0) -> dict[str, str]:
        """Its figures by RocketMQ's names, sorted. NotThereError if the cluster has no such broker."""
        address = await self._address(name, broker_id)
        answer = await ask(self._cluster.net, address, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        return dict(sorted(KVTable.decode(answer.body_bytes).table.items()))

    async def settings(self, name: str, broker_id: int = 0) -> dict[str, str]:
        """The settings of a broker, by their names in broker.conf. NotThereError if the cluster has no such broker."""
        address = await self._address(name, broker_id)
        answer = await ask(self._cluster.net, address, Command.request(RequestCode.GET_BROKER_CONFIG))
        return parse_properties(answer.body_bytes.decode("utf-8", "replace"))

    async def change(self, name: str, settings: Mapping[str, str], broker_id: int = 0) -> None:
        """Change settings of a running broker. RemoteError if it refuses one; then none is changed."""
        address, body = await self._address(name, broker_id), to_properties(settings).encode()
        await ask(self._cluster.net, address, Command.request(RequestCode.UPDATE_BROKER_CONFIG, body=body))

    async def _address(self, name: str, broker_id: int) -> str:
        members = await self._cluster.members(name)
        if broker_id not in members:
            known = ", ".join(
                f"{each.name} {', '.join(map(str, each.addresses))}" for each in await self._cluster.brokers()
            )
            what = f"there is no broker {name} with id {broker_id}"
            raise NotThereError(what, where=self._cluster.where, hint=f"choose one of these: {known or 'none'}")
        return members[broker_id]
