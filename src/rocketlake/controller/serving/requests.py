"""Requests of brokers that are decided: ids, registrations, the set of replicas, elections, removals.

Owns        the requests' fields -> a question, its decision -> the answer; the limits on names, members, held requests.
Must not know   the rules of a decision (decision.py), the register (decider.py).

Each request is held until the register has answered. Java waits 3 s for an answer and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.controller.decider import Decider
from rocketlake.controller.decision import Decision
from rocketlake.controller.group import EMPTY, Group
from rocketlake.controller.questions import (
    Alive,
    AlterSet,
    ApplyId,
    Clean,
    Elect,
    Heard,
    LogKept,
    NextId,
    Question,
    Register,
)
from rocketlake.controller.registers.register import OutcomeUnknown
from rocketlake.controller.serving.askers import Askers, host_of
from rocketlake.controller.watch.liveness import Liveness
from rocketlake.controller.watch.suspicion import counts_as_alive
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.link_pool import split_address
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.bodies.replicas import ElectMasterReply, SyncStateSet
from rocketlake.protocol.bodies.route import MemberGroupEntry
from rocketlake.protocol.headers.controller import (
    ASKED_BY_ADMIN,
    AlterSyncStateSetHeader,
    AlterSyncStateSetReplyHeader,
    ApplyBrokerIdHeader,
    ApplyBrokerIdReplyHeader,
    CleanBrokerDataHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    NextBrokerIdHeader,
    NextBrokerIdReplyHeader,
    RegisterReplicaHeader,
    RegisterReplicaReplyHeader,
)
from rocketlake.protocol.life_mark import life_mark, marks_to_text
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode as Code

__all__ = ["Requests", "known_master"]

_log = get_logger(__name__)

GROUPS_MAX: Final = 1000
MEMBERS_MAX: Final = 64
HELD_MAX: Final = 1024
_NAME_BYTES_MAX: Final = 255
_TEXT_BYTES_MAX: Final = 512
"""What is kept of a member goes with each change of its group into one value of the register."""

Work: TypeAlias = Callable[[Request], Coroutine[Any, Any, Reply]]


class Requests(Service):
    """Requests that ask for a decision."""

    def __init__(
        self, decider: Decider, liveness: Liveness, askers: Askers, clock: Clock, unclean: Callable[[], bool]
    ) -> None:
        super().__init__("controller requests", clock)
        self._decider = decider
        self._liveness = liveness
        self._askers = askers
        self._unclean = unclean
        self._held = 0

    def handler(self, work: Work) -> Handler:
        """The handler of a request that `work` serves; it is held meanwhile."""

        def handle(request: Request) -> Reply | Held:
            if self._held >= HELD_MAX or not self.is_running:
                return Reply(Code.SYSTEM_BUSY, remark=f"[OVERLOAD]{self._held} requests wait for the register")
            self._held += 1
            self.spawn(request_name(request.code), self._serve(work, request))
            return HELD

        return handle

    async def _serve(self, work: Work, request: Request) -> None:
        outcome: Reply | Exception = Reply(Code.SYSTEM_BUSY, remark="the controller stops")
        try:
            outcome = await work(request)
        except OutcomeUnknown as error:  # no refusal: what was asked for may be recorded later
            outcome = RemoteError(f"nobody knows whether it was recorded: {error.what}", code=Code.SYSTEM_ERROR)
        except LinkError as error:
            outcome = RemoteError(f"the register does not answer: {error.what}", code=Code.SYSTEM_BUSY, hint=error.hint)
        except Exception as error:
            outcome = error
        finally:
            self._held -= 1
            reply = run_handler(lambda _request: _given(outcome), request)
            assert isinstance(reply, Reply)
            request.answer(reply)

    # -- ids and registrations -----------------------------------------------------------------------------------------

    async def next_id(self, request: Request) -> Reply:
        """CONTROLLER_GET_NEXT_BROKER_ID."""
        header = request.header(NextBrokerIdHeader)
        decision = await self._ask(header.broker_name, NextId())
        return Reply(
            header=NextBrokerIdReplyHeader(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                next_broker_id=decision.group.next_id,
            )
        )

    async def apply_id(self, request: Request) -> Reply:
        """CONTROLLER_APPLY_BROKER_ID."""
        header = request.header(ApplyBrokerIdHeader)
        split_address(header.register_check_code.partition(";")[0])
        _check_short(cluster=header.cluster_name, check=header.register_check_code)
        self._check_room(header.broker_name)
        question = ApplyId(header.cluster_name, header.applied_broker_id, header.register_check_code)
        decision = await self._ask(header.broker_name, question)
        answer = ApplyBrokerIdReplyHeader(cluster_name=header.cluster_name, broker_name=header.broker_name)
        return _reply(decision, answer)

    async def register(self, request: Request) -> Reply:
        """CONTROLLER_REGISTER_BROKER."""
        header = request.header(RegisterReplicaHeader)
        name, broker_id = header.broker_name, header.broker_id
        split_address(header.broker_address)
        _check_short(
            address=header.broker_address, ha_address=header.ha_address, boot_id=header.boot_id, life=header.life
        )
        lives_before = frozenset((header.lives_before or "").split(";")) - {""}
        words = lives_before | {header.life or ""}
        await self._askers.check_registration(request, name, await self._member_state(name), broker_id, words)
        host = request.asker.remote[0]
        question = Register(
            broker_id=broker_id,
            address=header.broker_address,
            host="" if host == host_of(header.broker_address) else host,
            ha_address=header.ha_address or "",
            boot_id=header.boot_id or "",
            log_kept=_log_kept(header.log_kept),
            min_in_sync=header.min_in_sync_replicas or 1,
            life=header.life or "",
            lives_before=lives_before,
            known_epoch=-1 if header.known_epoch is None else header.known_epoch,
            known_set_epoch=-1 if header.known_set_epoch is None else header.known_set_epoch,
            known_master=known_master(header.known_master_epoch, header.known_master),
            masters_before=_masters(header.known_masters_before or ""),
        )
        decision = await self._ask(name, question)
        group = decision.group
        answer = RegisterReplicaReplyHeader(cluster_name=header.cluster_name, broker_name=name)
        if decision.code == Code.SUCCESS:
            answer.sync_state_set_epoch = group.in_sync_epoch
            answer.master_epoch = group.master_epoch
            answer.asker_mark = life_mark(group.members[broker_id].life) or None
            answer.member_marks = marks_to_text(group.lives) or None
            if group.master is not None and (group.master == broker_id or counts_as_alive(name, group, self._liveness)):
                answer.master_broker_id = group.master
                answer.master_address = group.members[group.master].address
                answer.master_mark = life_mark(group.members[group.master].life) or None
        return _reply(decision, answer, _set_of(group))

    # -- the set and the master ----------------------------------------------------------------------------------------

    async def alter_set(self, request: Request) -> Reply:
        """CONTROLLER_ALTER_SYNC_STATE_SET."""
        header = request.header(AlterSyncStateSetHeader)
        proposed = SyncStateSet.decode(request.body)
        name = header.broker_name
        self._askers.check_broker(request, name, await self._member_state(name), header.master_broker_id)
        question = AlterSet(header.master_broker_id, header.master_epoch, proposed.members, proposed.epoch)
        decision = await self._ask(name, question)
        answer = AlterSyncStateSetReplyHeader(new_sync_state_set_epoch=decision.group.in_sync_epoch)
        return _reply(decision, answer, _set_of(decision.group))

    async def elect(self, request: Request) -> Reply:
        """CONTROLLER_ELECT_MASTER: a broker finds no master, a master hands over, an administrator decides."""
        header = request.header(ElectMasterHeader)
        name, asker = header.broker_name, None if header.broker_id == ASKED_BY_ADMIN else header.broker_id
        group = await self._member_state(name)
        self._check_election(request, header, group, asker)
        unclean = bool(header.unclean) or self._unclean()
        question = Elect(asker=asker, designate=header.designate_elect and asker is not None, unclean=unclean)

        def alive(now: Group) -> Alive:
            here = self._liveness.alive(name, now.members.keys())
            if asker is not None and not question.designate:
                here.setdefault(asker, Heard())  # it lives: it asks
            if now.master is not None and counts_as_alive(name, now, self._liveness):
                here.setdefault(now.master, Heard())
            return here

        decision = await self._decider.ask(_checked(name), question, alive)
        if decision.why:
            _log.warning("group %s: %s asked; %s", name, request.address, decision.why)
        return self._elected(name, decision)

    def _check_election(self, request: Request, header: ElectMasterHeader, group: Group, asker: int | None) -> None:
        name = header.broker_name
        if asker is None or header.unclean:
            self._askers.check_admin(request, f"an election in group {name}")
        elif not header.designate_elect:
            self._askers.check_broker(request, name, group, asker)
        elif group.master is not None:
            self._askers.check_broker(request, name, group, group.master)  # a master hands over before it stops
        else:
            self._askers.check_admin(request, f"a designated master of group {name}")

    def _elected(self, name: str, decision: Decision) -> Reply:
        group = decision.group
        answer = ElectMasterReplyHeader(master_epoch=group.master_epoch, sync_state_set_epoch=group.in_sync_epoch)
        answer.member_marks = marks_to_text(group.lives) or None
        if group.master is not None:
            answer.master_broker_id = group.master
            answer.master_address = group.members[group.master].address
            answer.master_mark = life_mark(group.members[group.master].life) or None
        body = ElectMasterReply(members=sorted(group.in_sync))
        if decision.code == Code.SUCCESS:
            addresses = {broker_id: group.members[broker_id].address for broker_id in sorted(group.members)}
            body.group = MemberGroupEntry(broker_addrs=addresses, broker_name=name, cluster=group.cluster)
        return _reply(decision, answer, body.encode())

    # -- removals ------------------------------------------------------------------------------------------------------

    async def clean(self, request: Request) -> Reply:
        """CLEAN_BROKER_DATA. The dispatch table lets administrators in only."""
        header = request.header(CleanBrokerDataHeader)
        try:
            ids = frozenset(int(each) for each in (header.broker_controller_ids_to_clean or "").split(";") if each)
        except ValueError:
            raise RemoteError(
                f"ids {header.broker_controller_ids_to_clean!r} are not numbers",
                code=Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
                hint="name them as 1;2",
            ) from None
        decision = await self._ask(header.broker_name, Clean(ids, header.is_clean_living_broker))
        return _reply(decision)

    # -- what all have in common ---------------------------------------------------------------------------------------

    async def _ask(self, name: str, question: Question) -> Decision:
        return await self._decider.ask(
            _checked(name), question, lambda group: self._liveness.alive(name, group.members.keys())
        )

    async def _member_state(self, name: str) -> Group:
        """The state by which the asker is judged; read if the group is not known here yet."""
        return self._known(name) if name in self._decider.groups else await self._decider.fresh(_checked(name))

    def _known(self, name: str) -> Group:
        return self._decider.groups.get(name, EMPTY)

    def _check_room(self, name: str) -> None:
        groups = self._decider.groups
        if name not in groups and len(groups) >= GROUPS_MAX:
            raise UsageError(
                f"there are {len(groups)} groups already",
                hint="remove those that are gone: mqadmin cleanBrokerMetadata",
            )
        if len(self._known(name).members) >= MEMBERS_MAX:
            raise UsageError(
                f"group {name} has {MEMBERS_MAX} members already",
                hint="remove those that are gone: mqadmin cleanBrokerMetadata",
            )


def _given(outcome: Reply | Exception) -> Reply:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _reply(decision: Decision, header: Any = None, body: bytes | None = None) -> Reply:
    return Reply(decision.code, header, body, decision.remark or None)


def _set_of(group: Group) -> bytes:
    return SyncStateSet(members=group.in_sync, epoch=group.in_sync_epoch).encode()


def known_master(epoch: int | None, master: int | None) -> tuple[int, int] | None:
    """What a broker says of the newest master that it has heard of; None: it does not tell."""
    return None if epoch is None or master is None else (epoch, master)


def _masters(text: str) -> frozenset[tuple[int, int]]:
    """Epochs with their masters, written as `epoch:id;epoch:id`. Raises UsageError."""
    pairs = [each.partition(":") for each in text.split(";") if each]
    if len(text) > 2 * _TEXT_BYTES_MAX or not all(each.isdecimal() for pair in pairs for each in pair[::2]):
        raise UsageError(f"{text[:100]!r} are no epochs with masters", hint="see that the broker is no newer version")
    return frozenset((int(epoch), int(master)) for epoch, _, master in pairs)


def _log_kept(text: str | None) -> LogKept:
    """Java says nothing of its log: what was in memory is gone with its machine."""
    return LogKept.__members__.get(text or "", LogKept.IN_MEMORY)


def _checked(name: str) -> str:
    """A broker name that can be part of a key."""
    if not name or len(name.encode()) > _NAME_BYTES_MAX or "/" in name or not name.isprintable():
        raise UsageError(f"{name[:100]!r} cannot be the name of a group", hint="set another brokerName, without '/'")
    return name


def _check_short(**texts: str | None) -> None:
    """Return if the register can keep these texts. Raises UsageError."""
    for what, text in texts.items():
        if text and len(text.encode()) > _TEXT_BYTES_MAX:
            raise UsageError(
                f"{what} {text[:40]!r}... has {len(text.encode())} bytes, a controller keeps up to {_TEXT_BYTES_MAX}",
                hint="give the broker a shorter brokerClusterName, brokerIP1 or brokerIP2",
            )
