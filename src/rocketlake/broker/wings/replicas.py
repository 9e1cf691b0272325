"""The wing of replicas: a master hands its log to slaves, a slave copies its master's.

Owns        which of the two runs, by the role; what an ack of a send waits for; how the settings become those of the
            stream.
Must not know   bytes on the wire, why the role changes (broker.py), tables beside the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rocketlake.base.logs import get_logger
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.config import BrokerConfig, BrokerRole
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.sending import Sending
from rocketlake.broker.wings.wing import Wing
from rocketlake.replication.ack_set import AckRule, AckSet
from rocketlake.replication.classic import ClassicFollower, ClassicLeader
from rocketlake.replication.dialect import FollowerDialect, LeaderDialect
from rocketlake.replication.follower import Follower
from rocketlake.replication.leader import Leader
from rocketlake.replication.settings import StreamSettings
from rocketlake.replication.slave_link import CheckProof
from rocketlake.store.durability import Demands, Stage

__all__ = ["GroupStream", "Replicas"]

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupStream:
    """The stream of a broker under a controller: its dialects, and who counts the acks and says what they wait for."""

    leader: Callable[[], LeaderDialect]
    follower: Callable[[], FollowerDialect]
    rule: AckRule
    heartbeat_seconds: float
    """Master and slave say something this often, so that both know at once that the other hangs."""
    answer_seconds: float
    """A slave that reports nothing for so long is let go. It finds out then that it is cut off from this master: what
    the master says may reach it all the time."""
    waits_for: Callable[[], str]
    """Why a slave may not follow yet, "" if it may."""


class Replicas(Wing):
    """Runs in both roles."""

    def __init__(self, ground: Ground, master: KnownMaster, sending: Sending, group: GroupStream | None = None) -> None:
        """`master`: where a slave finds its master. `sending`: its marks need a file before a slave appends one.

        `group`: of a broker under a controller; else the classic stream.
        """
        super().__init__("replicas", ground.clock)
        config, store, clock = ground.config.now, ground.store, ground.clock
        network = ground.seams.ha_network
        settings = stream_settings(config, store.config.body_bytes_max)
        if group is not None:
            settings = replace(
                settings,
                heartbeat_seconds=min(settings.heartbeat_seconds, group.heartbeat_seconds),
                answer_seconds=min(settings.silence_seconds, group.answer_seconds),
            )
        self._group = group
        self._role = ground.role
        self._config = config
        self._master = master
        self._refusal: Callable[[], str] = lambda: store.not_writable_reason
        self._durability = store.durability
        self._own_demands = store.durability.demands
        """What this store asks for whatever the role."""
        self._sequences = sending.sequences
        self.acks = AckSet(
            store.durability,
            clock,
            replicas=_slaves_asked(config),
            gap_bytes_max=config.ha_gap_bytes_max,
            patience_seconds=config.slave_timeout_ms / 1000,
        )
        self.leader = Leader(
            store,
            settings,
            clock,
            network,
            host=config.listen_host,
            port=config.ha_port,
            dialect=self._leader_dialect,
            rule=self.acks if group is None else group.rule,
            check=_check(ground),
        )
        self.follower = Follower(
            store,
            settings,
            clock,
            network,
            master=lambda: config.ha_master_address or master.ha_address,
            dialect=self._classic_follower if group is None else group.follower,
            waits_for=self._waits_for,
            credentials=ground.accounts.credentials,
        )
        if config.ha_port is not None:
            ground.role.ha_port = lambda: self.leader.port
        master.on_change.append(self._master_changed)
        self.adopt(self.leader, self.follower)

    async def start(self) -> None:
        """Open the port for slaves, then lead or follow. Raises CannotListen."""
        await super(Wing, self).start()
        await self.leader.start()
        if self._role.is_master:
            self.lead()
        else:
            await self.follow()

    # -- roles ---------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Serve slaves; from the next send on acks wait for them, if the settings say so."""
        if self._group is None:
            self._ask_slaves()
        self.leader.lead(watches=self._group is not None or _slaves_asked(self._config) > 0)

    def _ask_slaves(self) -> None:
        self.acks.begin()
        if slaves := _slaves_asked(self._config):
            acks = {**self._own_demands.acks, Stage.REPLICATED: self._config.slave_timeout_ms}
            self._durability.demand(Demands(acks, self._own_demands.reads))
            _log.info("a send is answered when %d slaves have it (SYNC_MASTER, inSyncReplicas)", slaves)
        elif self._config.broker_role is BrokerRole.SYNC_MASTER:
            _log.warning("SYNC_MASTER with inSyncReplicas=1: no send waits for a slave, this broker's loss loses some")

    async def follow(self) -> None:
        """Serve no slaves, and copy the master's log."""
        self.leader.follow()
        if self._group is None:
            self._durability.demand(self._own_demands)
        await self.follower.start()

    async def stop_following(self) -> None:
        """Append nothing of a master any more when this returns."""
        await self.follower.stop()

    def _leader_dialect(self, host: str) -> LeaderDialect:
        if self._group is not None:
            return self._group.leader()
        return ClassicLeader(host, from_last_file=self._config.sync_from_last_file)

    def _classic_follower(self) -> FollowerDialect:
        copies_from = self._config.ha_copies_from
        return ClassicFollower(None if copies_from < 0 else copies_from)

    def _waits_for(self) -> str:
        """Why this slave does not connect now; "" if it may.

        Marks of producers are counted behind the place that the file says, so it must be there first. A store that
        takes nothing ends each connection with its first record: the master would count on this slave and lose it in
        turn.
        """
        if not self._sequences.has_file:
            return "producerSequences.json is not saved yet"
        return self._refusal() or (self._group.waits_for() if self._group is not None else "")

    def _master_changed(self) -> None:
        if self.follower.is_running:
            self.follower.master_changed()


def _check(ground: Ground) -> CheckProof | None:
    """Who may have the log of a master: with users, who may speak for a member of the cluster."""
    if not ground.gate.asks_who:
        return None
    if ground.config.now.ha_allow_unauthenticated:
        _log.warning("who reaches haListenPort gets all messages, unasked (haAllowUnauthenticated=true)")
        return None
    return ground.gate.check_replica


def stream_settings(config: BrokerConfig, body_bytes_max: int) -> StreamSettings:
    """The settings of the stream."""
    return StreamSettings(
        batch_bytes=config.ha_batch_bytes,
        heartbeat_seconds=config.ha_heartbeat_ms / 1000,
        silence_seconds=config.ha_silence_ms / 1000,
        answer_seconds=config.ha_silence_ms / 1000,
        bytes_per_second=config.ha_bytes_per_second if config.ha_flow_control else 0,
        from_last_file=config.sync_from_last_file,
        connections=config.ha_connections_max,
        record_bytes_max=2 * body_bytes_max + (1 << 20),
        reports_flushed=config.ha_reports_flushed,
    )


def _slaves_asked(config: BrokerConfig) -> int:
    """How many slaves must have a message before its send is answered."""
    return config.in_sync_replicas - 1 if config.broker_role is BrokerRole.SYNC_MASTER else 0
