"""A controller that decides as Apache's does (5.3.3, 5.5.0), in memory: it knows no lives, no boots, no doubtful logs.

Facts: /work/shared/reference/replication.md, 7.2 and 7.3. Who it hears is one link a broker; when that link ends the
broker is gone at once, and if it was the master there is an election.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.network import Network
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.replicas import (
    ElectMasterReply,
    ReplicaEntry,
    ReplicasEntry,
    ReplicasTable,
    SyncStateSet,
)
from rocketlake.protocol.headers import controller as h
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.protocol.response_code import ResponseCode as Code

NAME = "b"


class ApacheController:
    """Serves one group, "b"."""

    def __init__(self, clock: Clock, network: Network, host: str) -> None:
        self.master: int | None = None
        self.epoch = self.set_epoch = 0
        self.in_sync: frozenset[int] = frozenset()
        self.swallows = 0
        """So many proposals of a set that come next are lost on their way."""
        self.is_deaf = False
        """It does not notice who goes."""
        self._addresses: dict[int, str] = {}
        self._checks: dict[int, str] = {}
        self._heard: dict[int, tuple[Asker, tuple[int, int]]] = {}
        """The link of the first heartbeat, and (epoch, end of the log) of the best one."""
        handlers: dict[int, Callable[[Request], Reply | Held]] = {
            Ask.CONTROLLER_GET_NEXT_BROKER_ID: self._next_id,
            Ask.CONTROLLER_APPLY_BROKER_ID: self._apply_id,
            Ask.CONTROLLER_REGISTER_BROKER: self._register,
            Ask.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
            Ask.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state_data,
            Ask.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter,
            Ask.CONTROLLER_ELECT_MASTER: self._elect_asked,
            Ask.BROKER_HEARTBEAT: self._heartbeat,
        }
        dispatcher = Dispatcher(Row(code, handler, ANYBODY) for code, handler in handlers.items())
        self.server = Server(dispatcher, host=host, port=9878, clock=clock, network=network)

    def forget_links(self) -> None:
        """It was started again: the register is what it was, and it has heard of nobody yet."""
        self._heard.clear()

    # -- what it answers -----------------------------------------------------------------------------------------------

    def _set(self) -> bytes:
        return SyncStateSet(members=self.in_sync, epoch=self.set_epoch).encode()

    def _next_id(self, request: Request) -> Reply:
        return Reply(header=h.NextBrokerIdReplyHeader(next_broker_id=len(self._addresses) + 1))

    def _apply_id(self, request: Request) -> Reply:
        header = request.header(h.ApplyBrokerIdHeader)
        if self._checks.setdefault(header.applied_broker_id, header.register_check_code) != header.register_check_code:
            return Reply(Code.CONTROLLER_BROKER_ID_INVALID)
        self._addresses[header.applied_broker_id] = header.register_check_code.partition(";")[0]
        return Reply(header=h.ApplyBrokerIdReplyHeader())

    def _register(self, request: Request) -> Reply:
        answer = h.RegisterReplicaReplyHeader()
        if self.master in self._heard:
            answer = h.RegisterReplicaReplyHeader(
                master_broker_id=self.master,
                master_address=self._addresses[self.master],
                master_epoch=self.epoch,
                sync_state_set_epoch=self.set_epoch,
            )
        return Reply(header=answer, body=self._set())

    def _replica_info(self, request: Request) -> Reply:
        address = None if self.master is None else self._addresses[self.master]
        header = h.GetReplicaInfoReplyHeader(
            master_broker_id=self.master, master_address=address, master_epoch=self.epoch
        )
        return Reply(header=header, body=self._set())

    def _sync_state_data(self, request: Request) -> Reply:
        replicas = [
            ReplicaEntry(broker_name=NAME, broker_id=each, broker_address=address)
            for each, address in self._addresses.items()
        ]
        group = ReplicasEntry(
            master_broker_id=self.master,
            master_address=None if self.master is None else self._addresses[self.master],
            master_epoch=self.epoch,
            sync_state_set_epoch=self.set_epoch,
            in_sync_replicas=[each for each in replicas if each.broker_id in self.in_sync],
            not_in_sync_replicas=[each for each in replicas if each.broker_id not in self.in_sync],
        )
        return Reply(body=ReplicasTable(table={NAME: group}).encode())

    def _alter(self, request: Request) -> Reply | Held:
        header, proposed = request.header(h.AlterSyncStateSetHeader), SyncStateSet.decode(request.body)
        if self.swallows:
            self.swallows -= 1
            return HELD
        for code, is_refused in (
            (Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, proposed.members == self.in_sync),
            (Code.CONTROLLER_INVALID_MASTER, header.master_broker_id != self.master),
            (Code.CONTROLLER_FENCED_MASTER_EPOCH, header.master_epoch != self.epoch),
            (Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, proposed.epoch != self.set_epoch),
            (Code.CONTROLLER_BROKER_NOT_ALIVE, not proposed.members <= self._heard.keys()),
        ):
            if is_refused:
                return Reply(code)
        self.in_sync, self.set_epoch = proposed.members, self.set_epoch + 1
        return Reply(header=h.AlterSyncStateSetReplyHeader(new_sync_state_set_epoch=self.set_epoch), body=self._set())

    def _elect_asked(self, request: Request) -> Reply:
        header = request.header(h.ElectMasterHeader)
        code = self._elect(header.broker_id, header.broker_id if header.designate_elect else None)
        if code == Code.CONTROLLER_ELECT_MASTER_FAILED or self.master is None:
            return Reply(code)
        answer = h.ElectMasterReplyHeader(
            master_broker_id=self.master,
            master_address=self._addresses[self.master],
            master_epoch=self.epoch,
            sync_state_set_epoch=self.set_epoch,
        )
        return Reply(code, header=answer, body=ElectMasterReply(members=sorted(self.in_sync)).encode())

    # -- who is the master ---------------------------------------------------------------------------------------------

    def _heartbeat(self, request: Request) -> Reply:
        header, asker = request.header(BrokerHeartbeatHeader), request.asker
        assert header.broker_id is not None
        broker_id, report = header.broker_id, (header.epoch or 0, header.max_offset or 0)
        if broker_id not in self._heard:
            asker.on_close.append(lambda asker: self._lost(broker_id, asker))
        link, best = self._heard.get(broker_id, (asker, report))
        self._heard[broker_id] = link, max(best, report)
        return Reply()

    def _lost(self, broker_id: int, asker: Asker) -> None:
        if self._heard.get(broker_id, (None,))[0] is asker:
            del self._heard[broker_id]
            if broker_id == self.master and not self.is_deaf:
                self._elect(None, None)

    def _elect(self, asker: int | None, designated: int | None) -> Code:
        """`asker`: the broker that asks; None: the controller does."""
        chosen = asker if not self.epoch else self._best(designated)
        if chosen is None and asker is not None:
            return Code.CONTROLLER_ELECT_MASTER_FAILED
        if chosen is not None and chosen == self.master:
            return Code.CONTROLLER_MASTER_STILL_EXIST
        self.master, self.epoch = chosen, self.epoch + 1
        if chosen is not None:
            self.in_sync, self.set_epoch = frozenset((chosen,)), self.set_epoch + 1
        return Code.SUCCESS

    def _best(self, designated: int | None) -> int | None:
        alive = self.in_sync & self._heard.keys()
        if self.master in alive and designated in (None, self.master):
            return self.master
        if designated is not None:
            return designated if designated in alive else None
        return max(alive, key=lambda each: self._heard[each][1], default=None)
