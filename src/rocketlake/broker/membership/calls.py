"""The questions of a broker to its controller, and what the answers say.

Owns        the commands of one broker, the reading of the answers; which code is an answer and which a refusal.
Must not know   when a question is asked, which controller is asked (controllers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketlake.base.errors import RemoteError
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.membership.controllers import Controllers, ControllerSilent
from rocketlake.broker.membership.group_view import GroupView, Known
from rocketlake.broker.membership.identity import Application
from rocketlake.broker.membership.lives import Lives
from rocketlake.protocol.bodies.replicas import (
    ElectMasterReply,
    ReplicaEntry,
    ReplicasTable,
    SyncStateSet,
    encode_names,
)
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header, from_fields
from rocketlake.protocol.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    GetReplicaInfoHeader,
    GetReplicaInfoReplyHeader,
    NextBrokerIdHeader,
    NextBrokerIdReplyHeader,
    RegisterReplicaHeader,
    RegisterReplicaReplyHeader,
)
from rocketlake.protocol.life_mark import marks_from_text
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Calls"]

_NOT_RECORDED = frozenset(
    (
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        ResponseCode.CONTROLLER_INVALID_MASTER,
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_INVALID_REPLICAS,
        ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
    )
)
"""Answers after which a proposed set will never be recorded. Any other error may come after the register was told."""


class Calls:
    """Each call raises ControllerSilent (it may have been done) and RemoteError (refused: nothing has changed)."""

    def __init__(self, controllers: Controllers, role: Role, now_ms: Callable[[], int]) -> None:
        self._controllers = controllers
        self._role = role
        self._now_ms = now_ms

    def ask_another(self) -> None:
        """See Controllers."""
        self._controllers.ask_another()

    def hang_up(self) -> None:
        """See Controllers."""
        self._controllers.hang_up()

    async def next_id(self) -> int:
        """The id that the next broker of this group gets."""
        header = NextBrokerIdHeader(cluster_name=self._role.cluster_name, broker_name=self._role.broker_name)
        answer = await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        return from_fields(NextBrokerIdReplyHeader, answer.fields).next_broker_id

    async def apply_id(self, application: Application) -> None:
        """Take this id. Refused with CONTROLLER_BROKER_ID_INVALID if another broker has it."""
        header = ApplyBrokerIdHeader(
            cluster_name=self._role.cluster_name,
            broker_name=self._role.broker_name,
            applied_broker_id=application.broker_id,
            register_check_code=application.check_code,
        )
        await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    async def register(
        self, broker_id: int, lives: Lives, *, known: Known, boot_id: str, log_kept: str, copies_min: int
    ) -> GroupView:
        """This broker is here. A view without a master: none is alive.

        `known`: what it has heard of. `log_kept`: what became of its log.
        """
        header = RegisterReplicaHeader(
            cluster_name=self._role.cluster_name,
            broker_name=self._role.broker_name,
            broker_id=broker_id,
            broker_address="{}:{}".format(*self._role.address()),
            invoke_time=self._now_ms(),
            ha_address=self._role.identity().ha_address,
            boot_id=boot_id or None,
            log_kept=log_kept,
            min_in_sync_replicas=copies_min,
            life=lives.life,
            lives_before=";".join(lives.before),
            known_epoch=max(known.epoch, lives.epoch),
            known_set_epoch=known.set_epoch if known.epoch >= lives.epoch else None,
            known_master=lives.master,
            known_master_epoch=None if lives.master is None else lives.epoch,
            known_masters_before=";".join(f"{epoch}:{master}" for epoch, master in lives.masters_before),
        )
        answer = await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, header)
        reply = from_fields(RegisterReplicaReplyHeader, answer.fields)
        return _view(reply, SyncStateSet.decode(answer.body_bytes), reply.sync_state_set_epoch)

    async def group(self, broker_id: int, lives: Lives) -> GroupView:
        """The present state; `broker_id` asks. Refused if the register does not know of the newest master."""
        header = GetReplicaInfoHeader(
            broker_name=self._role.broker_name,
            broker_id=broker_id,
            known_master=lives.master,
            known_master_epoch=None if lives.master is None else lives.epoch,
        )
        answer = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        reply = from_fields(GetReplicaInfoReplyHeader, answer.fields)
        return _view(reply, SyncStateSet.decode(answer.body_bytes), None)

    async def elect(self, broker_id: int, *, designated: bool = False) -> GroupView:
        """Elect a master, on behalf of `broker_id`; `designated`: that one or none.

        A master that is there stays: its view is the answer. Refused if no replica may become the master.
        """
        header = ElectMasterHeader(
            cluster_name=self._role.cluster_name,
            broker_name=self._role.broker_name,
            broker_id=broker_id,
            designate_elect=designated,
            invoke_time=self._now_ms(),
        )
        answer = await self._ask(
            RequestCode.CONTROLLER_ELECT_MASTER, header, also=ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        )
        reply = from_fields(ElectMasterReplyHeader, answer.fields)
        members = ElectMasterReply.decode(answer.body_bytes).members if answer.body else []
        return _view(reply, SyncStateSet(members=frozenset(members)), reply.sync_state_set_epoch)

    async def alter_set(
        self, broker_id: int, master_epoch: int, members: frozenset[int], set_epoch: int
    ) -> tuple[frozenset[int], int]:
        """Record this set in place of the one with `set_epoch`; one try. Returns the recorded set and its epoch."""
        header = AlterSyncStateSetHeader(
            broker_name=self._role.broker_name,
            master_broker_id=broker_id,
            master_epoch=master_epoch,
            invoke_time=self._now_ms(),
        )
        body = SyncStateSet(members=members, epoch=set_epoch).encode()
        command = Command.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)
        answer = await self._controllers.ask_one(command)
        if answer.code != ResponseCode.SUCCESS and answer.code not in _NOT_RECORDED:
            raise ControllerSilent(f"the controller does not know what it recorded: {answer.remark}")
        if answer.code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE:
            self._controllers.ask_another()  # which may hear the joiner
        self._checked(answer, None)
        recorded = SyncStateSet.decode(answer.body_bytes)
        return recorded.members, recorded.epoch

    async def addresses(self) -> list[str]:
        """`host:port` of all members of the group."""
        return [replica.broker_address for replica in await self._replicas() if replica.broker_address]

    async def living(self) -> list[int]:
        """The ids of the members that the controller hears."""
        return sorted(replica.broker_id for replica in await self._replicas() if replica.alive)

    async def _replicas(self) -> list[ReplicaEntry]:
        names = [self._role.broker_name]
        answer = self._checked(
            await self._controllers.ask(
                lambda: Command.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names(names))
            ),
            None,
        )
        group = ReplicasTable.decode(answer.body_bytes).table.get(self._role.broker_name)
        return [] if group is None else [*group.in_sync_replicas, *group.not_in_sync_replicas]

    async def _ask(self, code: RequestCode, header: Header, also: int | None = None) -> Command:
        return self._checked(await self._controllers.ask(lambda: Command.request(code, header)), also)

    def _checked(self, answer: Command, also: int | None) -> Command:
        if answer.code not in (ResponseCode.SUCCESS, also):
            raise RemoteError(
                answer.remark or f"the controller refused with code {answer.code}",
                code=answer.code,
                remark=answer.remark or "",
                address=self._controllers.chosen,
            )
        return answer


def _view(header: Any, recorded: SyncStateSet, set_epoch: int | None) -> GroupView:
    """`header`: any with the master's id, address and epoch. The id without an address names nobody."""
    has_master = header.master_broker_id is not None and bool(header.master_address)
    return GroupView(
        master_id=header.master_broker_id if has_master else None,
        master_address=header.master_address if has_master else "",
        master_epoch=header.master_epoch or 0,
        members=recorded.members,
        set_epoch=recorded.epoch if set_epoch is None else max(set_epoch, recorded.epoch),
        master_mark=header.master_mark or "",
        asker_mark=getattr(header, "asker_mark", None) or "",
        member_marks=marks_from_text(header.member_marks or ""),
    )
