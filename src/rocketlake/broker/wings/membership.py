"""The wing of a broker under a controller: its membership in a group of replicas.

Owns        how the parts of this wing are put together; what a heartbeat says; how an epoch begins.
Must not know   the work of the parts, how controllers decide.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import run_on
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.dispatch_table import membership_rows
from rocketlake.broker.membership.boot import Boot
from rocketlake.broker.membership.calls import Calls
from rocketlake.broker.membership.controllers import Controllers
from rocketlake.broker.membership.epoch_answer import EpochAnswer
from rocketlake.broker.membership.heartbeats import Heartbeats
from rocketlake.broker.membership.identity import FILE_NAME as IDENTITY
from rocketlake.broker.membership.identity import IdentityFiles
from rocketlake.broker.membership.in_step import InStep, Pace
from rocketlake.broker.membership.joining import Joining
from rocketlake.broker.membership.lives import FILE_NAME as LIVES_FILE
from rocketlake.broker.membership.lives import Lives
from rocketlake.broker.membership.member import Member, Parts, Roles
from rocketlake.broker.membership.notices import Notices
from rocketlake.broker.membership.standing import Goal
from rocketlake.broker.membership.succession import GivingWay
from rocketlake.broker.replicas.furthest_log import FurthestLog, LogPosition
from rocketlake.broker.replicas.known_lives import KnownLives
from rocketlake.broker.replicas.master_marks import MasterMarks
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.replicas import GroupStream, Replicas
from rocketlake.broker.wings.wing import Wing
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.link_pool import split_address
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.headers.replicas import ExchangeHaHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.replication.auto_switch.master_end import AutoSwitchLeader, LeaderSays
from rocketlake.replication.auto_switch.slave_end import AutoSwitchFollower
from rocketlake.replication.epochs.kept import FILE_NAME, KeptEpochs
from rocketlake.replication.epochs.promotion import Promotion
from rocketlake.replication.epochs.truncation import Truncation

__all__ = ["Membership"]

_log = get_logger(__name__)

_CONTROLLER_MS = 1000
_MEMBER_MS = 3000


class Membership(Wing):
    """Runs in both roles."""

    def __init__(self, ground: Ground, cluster: Cluster, roles: Roles) -> None:
        super().__init__("membership", ground.clock)
        config, store, clock = ground.config.now, ground.store, ground.clock
        files, folder = ground.seams.files, config.store_folder
        self._ground = ground
        self._config = config
        self._cluster = cluster
        self._worker = ground.seams.workers("membership")
        self._boot = Boot(
            folder / "bootId",
            files,
            folder / "abort",
            identity=folder / IDENTITY,
            checkpoint=folder / "checkpoint",
        )
        self._is_log_whole = True
        """False if the machine went down and the log may have lost its end since this broker was the master."""
        self._epochs = KeptEpochs(folder / FILE_NAME, files, self._worker)
        self._promotion = Promotion(store, self._epochs, clock)
        controllers = Controllers(cluster.net, lambda: config.controller_addresses, _CONTROLLER_MS)
        self._calls = Calls(controllers, ground.role, clock.now_ms)
        self._joining = self._way_in(folder)
        self.in_step = InStep(
            store.durability,
            lambda: store.max_physical_offset,
            clock,
            _pace(config),
            alter=lambda epoch, members, set_epoch: self._calls.alter_set(
                self._joining.broker_id, epoch, members, set_epoch
            ),
            look_up=lambda: self.member.look_up(),
            register_again=lambda: self.member.register_again(),
        )
        heartbeats = Heartbeats(
            cluster.net, lambda: config.controller_addresses, self._heartbeat, clock, config.controller_heartbeat_ms
        )
        known_lives = self._known_lives()
        ground.editions.expect(self._others_in_set, known_lives.knows)
        parts = Parts(
            role=ground.role,
            roles=roles,
            calls=self._calls,
            joining=self._joining,
            in_step=self.in_step,
            heartbeats=heartbeats,
            begin_epoch=self._begin_epoch,
            follow=self._follow,
            announce=self._announce,
            hears_master=lambda: self.replicas.follower.status().is_connected,
            may_not_begin=lambda: self._joining.lacks_furthest(self._position()),
            known_lives=known_lives,
            log_end=lambda: store.max_physical_offset,
            giving_way=GivingWay(self._refusal, clock),
        )
        self.member = Member(parts, clock, copies_min=config.copies_min, poll_seconds=config.controller_poll_ms / 1000)
        self._notices = Notices(ground.role, cluster.master, self.member.noticed, self.member.look_up)
        self.rows = tuple(membership_rows(self._notices, self._epoch_answer(), known_lives))
        self.stream = self._stream()
        self.replicas: Replicas
        """Set by the broker; its follower says how long the master has been silent."""
        self.adopt(heartbeats, self.in_step, self.member)

    def _way_in(self, folder: Path) -> Joining:
        files, store, config = self._ground.seams.files, self._ground.store, self._config
        return Joining(
            IdentityFiles(folder, files, config.cluster_name, config.broker_name),
            self._boot,
            Lives(folder / LIVES_FILE, files),
            self._calls,
            FurthestLog(folder, files),
            role=self._ground.role,
            worker=self._worker,
            now_ms=self._ground.clock.now_ms,
            log_is_sound=lambda: store.damaged_from is None,
        )

    def mark(self) -> str:
        """Of the life of this process, as the controller tells it to the master."""
        return self._joining.lives.mark

    def _known_lives(self) -> KnownLives:
        return KnownLives(
            lambda broker_id: self.replicas.leader.turn_away(str(broker_id)),
            lambda: self.member.look_up(),
            self._ground.store.log,
        )

    def _epoch_answer(self) -> EpochAnswer:
        store, history = self._ground.store, lambda: self._epochs.history
        return EpochAnswer(self._ground.role, history, lambda: store.max_physical_offset, store.log)

    def _others_in_set(self) -> frozenset[int]:
        """The broker ids that may be elected in place of this master."""
        replicas = self.in_step.replicas
        return frozenset() if replicas is None else replicas.members - {replicas.broker_id}

    def _stream(self) -> GroupStream:
        store = self._ground.store
        says = LeaderSays(
            lambda: self._epochs.history,
            lambda: store.log.max_offset,
            lambda: PhysicalOffset(store.durability.confirmed.value),
        )
        return GroupStream(
            leader=lambda: AutoSwitchLeader(says),
            follower=self._follower,
            rule=self.in_step,
            heartbeat_seconds=self._config.controller_heartbeat_ms / 1000,
            answer_seconds=self._config.in_sync_stall_ms / 1000,
            waits_for=self._may_not_follow,
        )

    def _follower(self) -> AutoSwitchFollower:
        """Of a new connection."""
        broker_id, lives = self._joining.broker_id, self._joining.lives
        master = MasterMarks(self._cluster.net, self._cluster.master.address)
        return AutoSwitchFollower(
            self._ground.store,
            self._epochs,
            broker_id,
            least_epoch=lambda: self.member.standing.goal.epoch,
            most_epoch=lambda: self.member.standing.goal.epoch,
            from_last_file=self._config.sync_from_last_file,
            masters_mark=master.at,
            admission=lambda: master.admit(broker_id, lives.mark),
        )

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def look_at_boot(self) -> None:
        """Before the store starts. Raises StoreError, OSError."""
        await run_on(self._worker, self._boot.load)
        self._is_log_whole = self._boot.log_whole
        await run_on(self._worker, self._epochs.load)
        last = self._epochs.history.last
        await self._joining.load()
        if last is not None:
            await self._joining.note(last.number, None)

    async def start(self) -> None:
        """Begin to look for the controller; the broker gets its role later."""
        _say_what_is_given_up(self._config)
        await Truncation(self._ground.store, self._epochs).fit()
        await super(Wing, self).start()
        for part in (self.in_step, self.member):
            await part.start()  # heartbeats begin with the registration

    async def stop(self) -> None:
        """The role stays what it is. Nothing is followed any more: the epochs of what comes could not be kept."""
        await super().stop()
        await self.replicas.follower.stop()
        await self._worker.close()

    # -- what the member asks for --------------------------------------------------------------------------------------

    async def _begin_epoch(self, epoch: int) -> tuple[PhysicalOffset, bool]:
        last = self._epochs.history.last
        is_resumed = last is not None and last.number == epoch
        start = await self._promotion.become_master(epoch, is_log_whole=self._is_log_whole)
        self._is_log_whole = True  # in this epoch nothing was lost
        await run_on(self._worker, self._boot.told)  # Apache's controller was not
        topics = self._ground.topics
        topics.data_version = replace(topics.data_version, state_version=epoch)
        return start, is_resumed

    def _may_not_follow(self) -> str:
        """Why this broker copies nobody's log now, "" if it may.

        A master and the name servers may tell of it before the controller does: it would know this replica by a wrong
        id for as long as it follows.
        """
        standing = self.member.standing
        if not standing.broker_id:
            return "the controller has not registered this broker"
        return "the controller names no master to this broker" if standing.goal.master_id is None else ""

    def _follow(self, goal: Goal) -> None:
        if not goal.master_address:
            self._cluster.master.forget()
            return
        host, port = split_address(goal.master_address)
        address, ha_address = self._notices.announced
        if address != goal.master_address:
            # Apache's place for the stream, until the master or a name server says another one.
            ha_address = f"{host}:{port + 1}"
        self._cluster.master.decide(goal.master_address, ha_address)

    async def _announce(self, epoch: int) -> None:
        """Tell the other members where to copy from: Apache's slaves would wait for a name server's word."""
        own = self._ground.role.identity()
        header = ExchangeHaHeader(master_ha_address=own.ha_address, master_address=own.address)
        command = Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, header)
        try:
            addresses = await self._calls.addresses()
        except RocketLakeError as error:
            _log.warning("the members are not told of epoch %d, they find out by themselves: %s", epoch, error)
            return

        async def tell(address: str) -> None:
            try:
                await self._cluster.net.invoke_oneway(address, command, _MEMBER_MS)
            except RocketLakeError as error:
                _log.info("member %s is not told of epoch %d: %s", address, epoch, error)

        await asyncio.gather(*(tell(address) for address in addresses if address != own.address))

    def _position(self) -> LogPosition:
        """The epoch of the last record, and the end of the log. An epoch without a byte says nothing of this log."""
        end = self._ground.store.max_physical_offset
        return LogPosition(self._epochs.history.number_at(PhysicalOffset(end - 1)), end)

    def _refusal(self) -> str:
        """Why this broker as the master takes no messages, or would take none; "" if it does."""
        return self._ground.store.not_writable_reason or self._ground.store.log.disk_error

    def _heartbeat(self) -> BrokerHeartbeatHeader:
        store, config, role = self._ground.store, self._config, self._ground.role
        last, position, refusal = self._epochs.history.last, self._position(), self._refusal()
        # A slave that waits for its own disk does not say that its master is silent.
        waits = role.is_master or refusal
        silent = None if waits else round(self.replicas.follower.status().heard_seconds_ago * 1000)
        lives = self._joining.lives
        return BrokerHeartbeatHeader(
            cluster_name=config.cluster_name,
            broker_addr="{}:{}".format(*role.address()),
            broker_name=config.broker_name,
            broker_id=self._joining.broker_id,
            epoch=position.epoch,
            max_offset=position.end,
            confirm_offset=store.durability.confirmed.value,
            heartbeat_timeout_mills=config.controller_silence_ms,
            election_priority=config.election_priority,
            boot_id=self._boot.boot_id or None,
            ha_silent_millis=silent,
            ack_stalled_millis=self.in_step.stalled_ms if role.is_master else None,
            life=lives.life or None,
            known_epoch=max(self.member.standing.goal.epoch, -1 if last is None else last.number),
            known_master=lives.master,
            known_master_epoch=None if lives.master is None else lives.epoch,
            cannot_lead=True if refusal else None,
        )


def _pace(config: BrokerConfig) -> Pace:
    copies = 0 if config.all_ack_in_sync else config.in_sync_replicas
    return Pace(config.slave_timeout_ms, config.in_sync_stall_ms / 1000, copies)


def _say_what_is_given_up(config: BrokerConfig) -> None:
    if not config.all_ack_in_sync:
        _log.warning("allAckInSyncStateSet=false: a send is answered before all replicas in step have its message;"
                     " the loss of the master loses messages that were acknowledged")  # fmt: skip
    elif config.copies_min < 2:
        _log.warning("minInSyncReplicas=1: a message may be acknowledged with one copy; it is lost with its machine")
