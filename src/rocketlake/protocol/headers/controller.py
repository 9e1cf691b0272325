"""Headers of the requests between brokers and their controller: ids, sets of replicas in step, elections, roles.

Owns        field names.
Must not know   the states of groups, the rules of a decision.

Epochs are Java ints, ids and offsets longs. Fields behind `invoke_time` are ours: Java neither
writes nor reads them.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader

ASKED_BY_ADMIN = -1
"""`broker_id` of ELECT_MASTER when no broker asks for itself: an administrator or the controller does."""


class AlterSyncStateSetHeader(RequestHeader, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET; the body is the new set with the epoch of the known one (SyncStateSet)."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 | None = None


class AlterSyncStateSetReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_ALTER_SYNC_STATE_SET; the body is the recorded set."""

    new_sync_state_set_epoch: Int32


class ElectMasterHeader(RequestHeader, kw_only=True):
    """CONTROLLER_ELECT_MASTER; `designate_elect`: this broker or none.

    `unclean` (ours): the operator accepts a master that may lack acknowledged messages.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64 = ASKED_BY_ADMIN
    designate_elect: bool = False
    invoke_time: Int64 | None = None
    unclean: bool | None = None


class ElectMasterReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_ELECT_MASTER, also with code CONTROLLER_MASTER_STILL_EXIST; body ElectMasterReply.

    `master_mark`, `member_marks` (ours): of the lives of the processes that are the master, the members (life_mark.py).
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_mark: str | None = None
    member_marks: str | None = None


class RegisterReplicaHeader(RequestHeader, kw_only=True):
    """CONTROLLER_REGISTER_BROKER: a broker that has its id is here, at this address.

    `ha_address`: where replicas copy its log. `boot_id`: the boot of its machine, from the kernel. `log_kept`: what
    became of its log, a name of LogKept (controller/questions.py). `min_in_sync_replicas`: as a master it acknowledges
    nothing while fewer are in step. `life`: the word of this process, `lives_before`: those of earlier ones on its
    store, with ";" between them. `known_epoch`, `known_set_epoch`: the newest that it has heard of; `known_master`,
    `known_master_epoch`: the newest master that it has heard of; `known_masters_before`: older ones, as `epoch:id` with
    ";" between them.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 | None = None
    ha_address: str | None = None
    boot_id: str | None = None
    log_kept: str | None = None
    min_in_sync_replicas: Int32 | None = None
    life: str | None = None
    lives_before: str | None = None
    known_epoch: Int32 | None = None
    known_set_epoch: Int32 | None = None
    known_master: Int64 | None = None
    known_master_epoch: Int32 | None = None
    known_masters_before: str | None = None


class RegisterReplicaReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_REGISTER_BROKER; the master's fields only while it is alive. Body SyncStateSet.

    `master_mark`, `asker_mark`, `member_marks` (ours): of the lives of the processes that are registered as master,
    asker, members.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_mark: str | None = None
    asker_mark: str | None = None
    member_marks: str | None = None


class GetReplicaInfoHeader(RequestHeader, kw_only=True):
    """CONTROLLER_GET_REPLICA_INFO.

    Ours: `broker_id`: who asks; `known_master`, `known_master_epoch`: the newest master that it has heard of.
    """

    broker_name: str
    broker_id: Int64 | None = None
    known_master: Int64 | None = None
    known_master_epoch: Int32 | None = None


class GetReplicaInfoReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_GET_REPLICA_INFO; no id and address = no master now. Body SyncStateSet, with its epoch.

    `master_mark`, `asker_mark`, `member_marks` (ours): of the lives of the processes that are registered as master,
    asker, members.
    `asker_mark` of a member that is registered without one: NO_LIFE (life_mark.py).
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    master_mark: str | None = None
    asker_mark: str | None = None
    member_marks: str | None = None


class ControllerMetadataReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_GET_METADATA_INFO; `peers`: addresses, each followed by ";"."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class CleanBrokerDataHeader(RequestHeader, kw_only=True):
    """CLEAN_BROKER_DATA; `broker_controller_ids_to_clean`: ids with ";" in between, absent = the whole group."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class NextBrokerIdHeader(RequestHeader, kw_only=True):
    """CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str
    broker_name: str


class NextBrokerIdReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_GET_NEXT_BROKER_ID; 1 for a group nobody knows."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64


class ApplyBrokerIdHeader(RequestHeader, kw_only=True):
    """CONTROLLER_APPLY_BROKER_ID; `register_check_code` is `brokerAddress;millis` and makes a repetition harmless."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdReplyHeader(Header, kw_only=True):
    """Answer of CONTROLLER_APPLY_BROKER_ID."""

    cluster_name: str | None = None
    broker_name: str | None = None


class RoleChangedHeader(RequestHeader, kw_only=True):
    """NOTIFY_BROKER_ROLE_CHANGED, controller to broker, one-way; body SyncStateSet."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class GetSwitchesHeader(RequestHeader, kw_only=True):
    """CONTROLLER_GET_SWITCHES (ours)."""

    broker_name: str
