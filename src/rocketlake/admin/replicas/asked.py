"""The requests that administrators send to a controller about groups of brokers.

Owns        finding a name server with a controller, the administrative requests about replicas.
Must not know   how answers are shown.
"""

from __future__ import annotations

from rocketlake.admin.cluster import Cluster, first_to_answer
from rocketlake.admin.replicas.state import known_member, member_of
from rocketlake.base.errors import LinkError, NotThereError, RemoteError, RocketLakeError
from rocketlake.client.calls.answer import ask
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.replicas import (
    GroupsView,
    GroupView,
    MemberView,
    SwitchesView,
    SwitchView,
    encode_names,
)
from rocketlake.protocol.bodies.stats import TopicStats
from rocketlake.protocol.bodies.topic import TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_topic import TopicStatsHeader
from rocketlake.protocol.headers.controller import (
    ASKED_BY_ADMIN,
    CleanBrokerDataHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    GetSwitchesHeader,
    RegisterReplicaHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ClusterReplicas"]


class ClusterReplicas:
    """Groups of brokers, as a controller inside one of the name servers knows them. Raises LinkError, RemoteError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._addresses: list[str] | None = None
        """The name servers, one with a controller that answers first."""

    async def groups(self) -> list[GroupView]:
        """All groups, sorted by name."""
        return GroupsView.decode((await self._ask(RequestCode.CONTROLLER_GET_GROUPS, None)).body_bytes).groups

    async def group(self, name: str) -> GroupView:
        """One group. NotThereError if there is none of this name."""
        answer = await self._ask(RequestCode.CONTROLLER_GET_GROUPS, None, encode_names([name]))
        found = GroupsView.decode(answer.body_bytes).groups
        if not found:
            raise NotThereError(
                f"no controller knows a group of brokers {name!r}",
                where=self._cluster.where,
                hint="`rocketlake replicas list` names all groups",
            )
        return found[0]

    async def switches(self, name: str) -> list[SwitchView]:
        """The masters that the group had, the newest first. NotThereError if there is no group of this name."""
        answer = await self._ask(RequestCode.CONTROLLER_GET_SWITCHES, GetSwitchesHeader(broker_name=name))
        found = SwitchesView.decode(answer.body_bytes).switches
        if not found:
            await self.group(name)
        return found

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

    async def move(self, group: GroupView, member: MemberView, address: str) -> None:
        """Have the controller expect this member at another address; the rest of it stays as it is recorded."""
        header = RegisterReplicaHeader(
            cluster_name=group.cluster,
            broker_name=group.broker_name,
            broker_id=member.broker_id,
            broker_address=address,
            boot_id=member.boot_id,
            log_kept="ON_DISK",
            min_in_sync_replicas=member.min_in_sync,
        )
        await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, header)

    async def lacking(self, group: GroupView, broker_id: int) -> int | None:
        """How many messages the master can show that this broker cannot; None if one of them does not tell."""
        other, master = known_member(group, broker_id).address, member_of(group, group.master)
        if master is None:
            return None
        try:
            answer = await ask(self._cluster.net, master.address, Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
            topics = sorted(TopicTable.decode(answer.body_bytes).topics)
            return sum([await self._lacking(topic, master.address, other) for topic in topics])
        except RocketLakeError:
            return None

    async def _lacking(self, topic: str, master: str, other: str) -> int:
        here, there = [await self._ends(topic, address) for address in (master, other)]
        return sum(max(0, end - there.get(queue, 0)) for queue, end in here.items())

    async def _ends(self, topic: str, address: str) -> dict[MessageQueue, int]:
        command = Command.request(RequestCode.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic=topic))
        accepted = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        answer = await ask(self._cluster.net, address, command, accept=accepted)
        if answer.code != ResponseCode.SUCCESS:
            return {}
        return {queue: each.max_offset for queue, each in TopicStats.decode(answer.body_bytes).offsets.items()}

    async def remove(self, group: GroupView, broker_id: int) -> None:
        """Forget a member that does not live."""
        header = CleanBrokerDataHeader(
            cluster_name=group.cluster, broker_name=group.broker_name, broker_controller_ids_to_clean=str(broker_id)
        )
        await self._ask(RequestCode.CLEAN_BROKER_DATA, header)

    async def _ask(self, code: RequestCode, header: Header | None, body: bytes = b"") -> Command:
        """The answer of the first name server that has a controller and is up."""
        if self._addresses is None:
            self._addresses = await self._in_order()
        problems: list[str] = []
        for address in self._addresses:
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

    async def _in_order(self) -> list[str]:
        addresses = self._cluster.name_servers
        nothing = encode_names([])
        first = await first_to_answer(
            self._cluster.net,
            addresses,
            lambda: Command.request(RequestCode.CONTROLLER_GET_GROUPS, None, nothing),
        )
        return sorted(addresses, key=lambda address: address != first)
