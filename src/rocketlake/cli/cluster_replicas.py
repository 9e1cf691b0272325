"""The requests that commands send to a controller about groups of brokers.

Owns        finding a name server with a controller, the administrative requests about replicas.
Must not know   how answers are shown (replicas.py).
"""

from __future__ import annotations

from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.cli.cluster import Cluster
from rocketlake.client.calls.answer import ask
from rocketlake.protocol.bodies.replicas import GroupsView, GroupView, SwitchesView, SwitchView, encode_names
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.controller import (
    ASKED_BY_ADMIN,
    CleanBrokerDataHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    GetSwitchesHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ClusterReplicas"]


class ClusterReplicas:
    """Groups of brokers, as a controller inside one of the name servers knows them. Raises LinkError, RemoteError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def groups(self) -> list[GroupView]:
        """All groups, sorted by name."""
        return GroupsView.decode((await self._ask(RequestCode.CONTROLLER_GET_GROUPS, None)).body_bytes).groups

    async def group(self, name: str) -> GroupView:
        """One group. UsageError if there is none of this name."""
        answer = await self._ask(RequestCode.CONTROLLER_GET_GROUPS, None, encode_names([name]))
        found = GroupsView.decode(answer.body_bytes).groups
        if not found:
            raise UsageError(
                f"no controller knows a group of brokers {name!r}",
                where=self._cluster.where,
                hint="`rocketlake replicas list` names all groups",
            )
        return found[0]

    async def switches(self, name: str) -> list[SwitchView]:
        """The masters that the group had, the newest first."""
        answer = await self._ask(RequestCode.CONTROLLER_GET_SWITCHES, GetSwitchesHeader(broker_name=name))
        return SwitchesView.decode(answer.body_bytes).switches

    async def elect(self, group: GroupView, broker_id: int | None, *, unclean: bool = False) -> ElectMasterReplyHeader:
        """Choose a master: this broker or none, or any that may be one."""
        header = ElectMasterHeader(
            cluster_name=group.cluster,
            broker_name=group.broker_name,
            broker_id=ASKED_BY_ADMIN if broker_id is None else broker_id,
            designate_elect=broker_id is not None,
            unclean=unclean or None,
        )
        return (await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, header)).header(ElectMasterReplyHeader)

    async def remove(self, group: GroupView, broker_id: int) -> None:
        """Forget a member that does not live."""
        header = CleanBrokerDataHeader(
            cluster_name=group.cluster, broker_name=group.broker_name, broker_controller_ids_to_clean=str(broker_id)
        )
        await self._ask(RequestCode.CLEAN_BROKER_DATA, header)

    async def _ask(self, code: RequestCode, header: Header | None, body: bytes = b"") -> Command:
        """The answer of the first name server that has a controller and is up."""
        problems: list[str] = []
        for address in self._cluster.name_servers:
            try:
                return await ask(self._cluster.net, address, Command.request(code, header, body))
            except LinkError as error:
                problems.append(error.what)
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                problems.append(f"{address} has no controller")
        raise LinkError(
            "no controller answers: " + "; ".join(problems),
            where=self._cluster.where,
            hint="start a name server with enableControllerInNamesrv=true; `rocketlake up --replicas 3` does it here",
        )
