"""Questions that change nothing: the master of a group, pictures of groups, the history of masters, this controller.

Owns        the answers' fields.
Must not know   decisions, how a broker is found to live.

What is known here may be a moment old. Brokers take only what has a newer epoch than they know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rocketlake.base.errors import RemoteError
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import EMPTY, Group, Member
from rocketlake.controller.history import history_prefix, switch_from_json
from rocketlake.controller.questions import Heard
from rocketlake.controller.registers.register import Register
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness, Pulse
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.replicas import (
    GroupsView,
    GroupView,
    MemberView,
    ReplicaEntry,
    ReplicasEntry,
    ReplicasTable,
    SwitchesView,
    SyncStateSet,
    decode_names,
)
from rocketlake.protocol.headers.controller import (
    ControllerMetadataReplyHeader,
    GetReplicaInfoHeader,
    GetReplicaInfoReplyHeader,
    GetSwitchesHeader,
)
from rocketlake.protocol.life_mark import NO_LIFE, life_mark, marks_to_text
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Views"]

CONTROLLER_GROUP: Final = "rocketlake"
"""Name of the group of controllers in CONTROLLER_GET_METADATA_INFO; Java writes that of its Raft group."""


class Views:
    """Answers questions from what is known."""

    def __init__(self, decider: Decider, liveness: Liveness, register: Register, address: Callable[[], str]) -> None:
        """`address`: where brokers reach this controller."""
        self._decider = decider
        self._liveness = liveness
        self._register = register
        self._address = address

    def metadata(self, _request: Request) -> Reply:
        """CONTROLLER_GET_METADATA_INFO: each controller is the leader, because all can decide."""
        address = self._address()
        return Reply(
            header=ControllerMetadataReplyHeader(
                group=CONTROLLER_GROUP,
                controller_leader_id=address,
                controller_leader_address=address,
                is_leader=True,
                peers=f"{address};",
            )
        )

    def replica_info(self, request: Request) -> Reply:
        """CONTROLLER_GET_REPLICA_INFO."""
        asked = request.header(GetReplicaInfoHeader)
        name = asked.broker_name
        group = self._decider.groups.get(name, EMPTY)
        if not group.members:
            raise RemoteError(
                f"no broker of group {name[:100]} is registered",
                code=ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            )
        if group.contradicts(asked.known_master_epoch, asked.known_master):
            raise RemoteError(
                f"the master of epoch {asked.known_master_epoch} is another one here: the register is an older copy",
                code=ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            )
        header = GetReplicaInfoReplyHeader(master_epoch=group.master_epoch)
        header.member_marks = marks_to_text(group.lives) or None
        if group.master is not None:
            header.master_broker_id = group.master
            header.master_address = group.members[group.master].address
            header.master_mark = life_mark(group.members[group.master].life) or None
        if asked.broker_id in group.members:
            header.asker_mark = life_mark(group.members[asked.broker_id].life) or NO_LIFE
        return Reply(header=header, body=SyncStateSet(members=group.in_sync, epoch=group.in_sync_epoch).encode())

    def sync_state_data(self, request: Request) -> Reply:
        """CONTROLLER_GET_SYNC_STATE_DATA: the groups that are named."""
        table = {name: self._replicas(name, group) for name, group in self._named(decode_names(request.body))}
        return Reply(body=ReplicasTable(table=table).encode())

    def groups(self, request: Request) -> Reply:
        """CONTROLLER_GET_GROUPS (ours): the groups that are named, or all."""
        names = decode_names(request.body) if request.body else sorted(self._decider.groups)
        return Reply(body=GroupsView(groups=[self._group(*each) for each in self._named(names)]).encode())

    async def switches(self, request: Request) -> Reply:
        """CONTROLLER_GET_SWITCHES (ours)."""
        name = request.header(GetSwitchesHeader).broker_name
        found = await self._register.read(history_prefix(name))
        switches = [switch_from_json(value) for _, (value, _) in sorted(found.items(), reverse=True)]
        return Reply(body=SwitchesView(switches=[each for each in switches if each is not None]).encode())

    def _named(self, names: Iterable[str]) -> list[tuple[str, Group]]:
        groups = self._decider.groups
        return [(name, groups[name]) for name in dict.fromkeys(names) if name in groups]

    def _replicas(self, name: str, group: Group) -> ReplicasEntry:
        entries = {broker_id: self._replica(name, broker_id, each) for broker_id, each in sorted(group.members.items())}
        master = group.members.get(group.master) if group.master is not None else None
        return ReplicasEntry(
            in_sync_replicas=[entry for broker_id, entry in entries.items() if broker_id in group.in_sync],
            not_in_sync_replicas=[entry for broker_id, entry in entries.items() if broker_id not in group.in_sync],
            master_broker_id=group.master,
            master_address=master.address if master is not None else None,
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.in_sync_epoch,
        )

    def _replica(self, name: str, broker_id: int, member: Member) -> ReplicaEntry:
        alive = self._liveness.pulse(BrokerKey(name, broker_id)) is Pulse.ALIVE
        return ReplicaEntry(alive=alive, broker_address=member.address, broker_id=broker_id, broker_name=name)

    def _group(self, name: str, group: Group) -> GroupView:
        return GroupView(
            broker_name=name,
            cluster=group.cluster,
            master=group.master,
            master_epoch=group.master_epoch,
            in_sync=sorted(group.in_sync),
            in_sync_epoch=group.in_sync_epoch,
            eligible=sorted(group.eligible),
            doubtful=sorted(group.doubtful),
            min_in_sync=group.min_in_sync,
            next_id=group.next_id,
            members=[self._member(name, *each) for each in sorted(group.members.items())],
            trouble=self._decider.trouble,
        )

    def _member(self, name: str, broker_id: int, member: Member) -> MemberView:
        key = BrokerKey(name, broker_id)
        last = self._liveness.last(key)
        beat = last.beat if last is not None else Beat(Heard())
        return MemberView(
            broker_id=broker_id,
            address=member.address,
            ha_address=member.ha_address,
            boot_id=member.boot_id,
            min_in_sync=member.min_in_sync,
            pulse=self._liveness.pulse(key).name,
            silent_ms=round(self._liveness.age(key) * 1000) if last is not None else None,
            epoch=beat.heard.epoch,
            max_offset=beat.heard.end_offset,
            confirm_offset=beat.confirm_offset,
            election_priority=beat.heard.priority,
            ha_silent_ms=beat.ha_silent_ms,
            ack_stalled_ms=beat.ack_stalled_ms,
        )
