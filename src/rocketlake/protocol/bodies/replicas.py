"""Bodies about replicas: the set in step, the outcome of an election, the picture of groups, epochs, links of HA.

Owns        their shape.
Must not know   the states of groups, the epoch file, the stream between replicas.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from rocketlake.base.java import json_text
from rocketlake.protocol.bodies.body import Body, Entry, decode_as
from rocketlake.protocol.bodies.route import MemberGroupEntry

OPEN_END: Final = 2**63 - 1
"""End of an epoch that is not over."""


class SyncStateSet(Body, kw_only=True):
    """The ids of the replicas that are in step, the master's too, and the epoch of this set."""

    members: frozenset[int] = field(default=frozenset(), name="syncStateSet")
    epoch: int = field(default=0, name="syncStateSetEpoch")

    def encode(self) -> bytes:
        """JSON text, ids in order."""
        return json_text.to_text({"syncStateSet": sorted(self.members), "syncStateSetEpoch": self.epoch})


class ElectMasterReply(Body, kw_only=True):
    """Answer of CONTROLLER_ELECT_MASTER; no addresses when the master did not change.

    Java's controller writes the ids in the addresses without quotes. Its own mqadmin 5.4 and 5.5.0 fails on that: it
    reads the body as another one, and its JSON reader skips no member with bare keys. Every Java peer reads quoted ids.
    """

    group: MemberGroupEntry | None = field(default=None, name="brokerMemberGroup")
    members: list[int] = field(default_factory=list, name="syncStateSet")


class ReplicaEntry(Entry, kw_only=True):
    """One replica in the picture of a group."""

    alive: bool = False
    broker_address: str | None = None
    broker_id: int
    broker_name: str = ""


class ReplicasEntry(Entry, kw_only=True):
    """One group in the picture; no master's id and address = no master now."""

    in_sync_replicas: list[ReplicaEntry] = field(default_factory=list)
    master_address: str | None = None
    master_broker_id: int | None = None
    master_epoch: int = 0
    not_in_sync_replicas: list[ReplicaEntry] = field(default_factory=list)
    sync_state_set_epoch: int = 0


class ReplicasTable(Body, kw_only=True):
    """Answer of CONTROLLER_GET_SYNC_STATE_DATA: groups by broker name."""

    table: dict[str, ReplicasEntry] = field(default_factory=dict, name="replicasInfoTable")


class EpochSpan(Entry, kw_only=True):
    """The log from `start_offset` to `end_offset` (bytes) was written under this master epoch."""

    end_offset: int = OPEN_END
    epoch: int
    start_offset: int


class EpochCache(Body, kw_only=True):
    """Answer of GET_BROKER_EPOCH_CACHE; `max_offset`: end of the log."""

    broker_id: int = 0
    broker_name: str = ""
    cluster_name: str = ""
    epochs: list[EpochSpan] = field(default_factory=list, name="epochList")
    max_offset: int = 0


class HaClientEntry(Entry, kw_only=True):
    """A slave's link to its master; times are wall clock ms."""

    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_addr: str | None = None
    master_flush_offset: int = 0
    max_offset: int = 0
    transferred_byte_in_second: int = 0


class HaConnectionEntry(Entry, kw_only=True):
    """A master's link to one slave; `diff`: bytes it is behind."""

    addr: str = ""
    diff: int = 0
    in_sync: bool = False
    slave_ack_offset: int = 0
    transfer_from_where: int = 0
    transferred_byte_in_second: int = 0


class HaStatus(Body, kw_only=True):
    """Answer of GET_BROKER_HA_STATUS: a master fills the connections, a slave the client."""

    client: HaClientEntry | None = field(default=None, name="haClientRuntimeInfo")
    connections: list[HaConnectionEntry] = field(default_factory=list, name="haConnectionInfo")
    in_sync_slaves: int = field(default=0, name="inSyncSlaveNums")
    master: bool = False
    master_end: int = field(default=0, name="masterCommitLogMaxOffset")


class MemberView(Entry, kw_only=True):
    """One member of a group, as a controller knows and hears it. Times are ms; offsets and epochs -1 if unknown."""

    broker_id: int
    address: str
    ha_address: str = ""
    boot_id: str = ""
    min_in_sync: int = 1
    pulse: str
    """A name of Pulse (controller/watch/liveness.py)."""
    silent_ms: int | None = None
    """Since its last heartbeat; None: it was not heard."""
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    election_priority: int = 2**31 - 1
    ha_silent_ms: int | None = None
    ack_stalled_ms: int = 0


class GroupView(Entry, kw_only=True):
    """One group, as it is recorded, and as the answering controller hears it."""

    broker_name: str
    cluster: str = ""
    master: int | None = None
    master_epoch: int = 0
    in_sync: list[int] = field(default_factory=list)
    in_sync_epoch: int = 0
    eligible: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)
    min_in_sync: int = 1
    next_id: int = 1
    members: list[MemberView] = field(default_factory=list)
    trouble: str = ""
    """Why the answering controller can decide nothing now: its register does not answer. Empty if it does."""


class GroupsView(Body, kw_only=True):
    """Answer of CONTROLLER_GET_GROUPS (ours); the request's body: names of groups, none for all."""

    groups: list[GroupView] = field(default_factory=list)


class SwitchView(Entry, kw_only=True):
    """A new master, or the loss of one; `at_ms` is wall clock."""

    epoch: int
    master: int | None = None
    address: str = ""
    before: int | None = None
    in_sync: list[int] = field(default_factory=list)
    why: str = ""
    by: str = ""
    at_ms: int = 0


class SwitchesView(Body, kw_only=True):
    """Answer of CONTROLLER_GET_SWITCHES (ours), the newest first."""

    switches: list[SwitchView] = field(default_factory=list)


def encode_names(broker_names: list[str]) -> bytes:
    """Body of CONTROLLER_GET_SYNC_STATE_DATA."""
    return json_text.to_text(broker_names)


def decode_names(data: bytes | memoryview | None) -> list[str]:
    """Body of CONTROLLER_GET_SYNC_STATE_DATA -> broker names. BodyError if it is no list of texts."""
    return decode_as(list[str], data)
