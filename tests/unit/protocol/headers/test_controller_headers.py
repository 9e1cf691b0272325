"""Names of the fields on the wire, against the fields of Apache's header classes (5.3.3 and 5.5.0 have the same)."""

from __future__ import annotations

import pytest

from rocketlake.protocol.fields import Header, HeaderError, from_fields, to_fields
from rocketlake.protocol.headers.controller import (
    ASKED_BY_ADMIN,
    AlterSyncStateSetHeader,
    AlterSyncStateSetReplyHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ControllerMetadataReplyHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    NextBrokerIdReplyHeader,
    RegisterReplicaHeader,
    RoleChangedHeader,
)
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.headers.replicas import ExchangeHaHeader

WRITTEN: list[tuple[Header, dict[str, str]]] = [
    (
        AlterSyncStateSetHeader(broker_name="b", master_broker_id=1, master_epoch=2, invoke_time=9),
        {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "2", "invokeTime": "9"},
    ),
    (AlterSyncStateSetReplyHeader(new_sync_state_set_epoch=4), {"newSyncStateSetEpoch": "4"}),
    (
        ElectMasterHeader(cluster_name="c", broker_name="b", broker_id=2, designate_elect=True),
        {"clusterName": "c", "brokerName": "b", "brokerId": "2", "designateElect": "true"},
    ),
    (
        ElectMasterReplyHeader(master_broker_id=1, master_address="a:1", master_epoch=2, sync_state_set_epoch=3),
        {"masterBrokerId": "1", "masterAddress": "a:1", "masterEpoch": "2", "syncStateSetEpoch": "3"},
    ),
    (
        RegisterReplicaHeader(cluster_name="c", broker_name="b", broker_id=2, broker_address="a:1", boot_id="x"),
        {"clusterName": "c", "brokerName": "b", "brokerId": "2", "brokerAddress": "a:1", "bootId": "x"},
    ),
    (
        ControllerMetadataReplyHeader(
            group="g", controller_leader_id="n0", controller_leader_address="a:1", is_leader=True, peers="a:1;"
        ),
        {
            "group": "g", "controllerLeaderId": "n0", "controllerLeaderAddress": "a:1", "isLeader": "true",
            "peers": "a:1;",
        },
    ),
    (
        CleanBrokerDataHeader(broker_name="b", broker_controller_ids_to_clean="1;2", is_clean_living_broker=True),
        {"brokerName": "b", "brokerControllerIdsToClean": "1;2", "isCleanLivingBroker": "true"},
    ),
    (NextBrokerIdReplyHeader(next_broker_id=3), {"nextBrokerId": "3"}),
    (
        ApplyBrokerIdHeader(cluster_name="c", broker_name="b", applied_broker_id=1, register_check_code="a:1;9"),
        {"clusterName": "c", "brokerName": "b", "appliedBrokerId": "1", "registerCheckCode": "a:1;9"},
    ),
    (
        RoleChangedHeader(master_address="a:1", master_epoch=2, sync_state_set_epoch=3, master_broker_id=1),
        {"masterAddress": "a:1", "masterEpoch": "2", "syncStateSetEpoch": "3", "masterBrokerId": "1"},
    ),
    (
        BrokerHeartbeatHeader(
            cluster_name="c", broker_addr="a:1", broker_name="b", broker_id=2, epoch=3, max_offset=4, confirm_offset=5,
            heartbeat_timeout_mills=6, election_priority=7, ha_silent_millis=8, ack_stalled_millis=9,
            cannot_lead=True,
        ),
        {
            "clusterName": "c", "brokerAddr": "a:1", "brokerName": "b", "brokerId": "2", "epoch": "3",
            "maxOffset": "4", "confirmOffset": "5", "heartbeatTimeoutMills": "6", "electionPriority": "7",
            "haSilentMillis": "8", "ackStalledMillis": "9", "cannotLead": "true",
        },
    ),
    (
        ExchangeHaHeader(master_ha_address="a:2", master_flush_offset=5, master_address="a:1"),
        {"masterHaAddress": "a:2", "masterFlushOffset": "5", "masterAddress": "a:1"},
    ),
    (ExchangeHaHeader(), {}),
]  # fmt: skip


@pytest.mark.parametrize(("header", "fields"), WRITTEN, ids=lambda value: type(value).__name__)
def test_fields_have_the_names_of_java(header: Header, fields: dict[str, str]) -> None:
    written = {name: value for name, value in to_fields(header).items() if value != "false"}
    assert written == fields
    assert from_fields(type(header), fields) == header


def test_an_election_without_a_broker_is_an_administrators() -> None:
    read = from_fields(ElectMasterHeader, {"clusterName": "c", "brokerName": "b"})
    assert (read.broker_id, read.designate_elect) == (ASKED_BY_ADMIN, False)


def test_a_group_without_a_name_is_an_error() -> None:
    with pytest.raises(HeaderError, match="brokerName"):
        from_fields(AlterSyncStateSetHeader, {"masterBrokerId": "1", "masterEpoch": "2"})
