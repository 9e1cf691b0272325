"""Bodies about replicas against the texts of Apache's classes, printed by 5.3.3 and 5.5.0 (they write the same).

One of ours is another on purpose: the ids in the answer to an election are quoted.
"""

from __future__ import annotations

import json

import pytest

from rocketlake.protocol.bodies.body import Body, BodyError
from rocketlake.protocol.bodies.replicas import (
    OPEN_END,
    ElectMasterReply,
    EpochCache,
    HaStatus,
    ReplicasTable,
    SyncStateSet,
    decode_names,
    encode_names,
)

BARE = b'{1:"127.0.0.1:10911",2:"127.0.0.1:10921"}'
QUOTED = b'{"1":"127.0.0.1:10911","2":"127.0.0.1:10921"}'
ELECTED = b'{"brokerMemberGroup":{"brokerAddrs":%b,"brokerName":"b","cluster":"c"},"syncStateSet":[1]}'
JAVA: list[tuple[type[Body], bytes]] = [
    (SyncStateSet, b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'),
    (ElectMasterReply, ELECTED % QUOTED),
    (ElectMasterReply, b'{"syncStateSet":[1]}'),
    (
        ReplicasTable,
        b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"alive":true,"brokerAddress":"127.0.0.1:10911","brokerId":1,'
        b'"brokerName":"b"}],"masterAddress":"127.0.0.1:10911","masterBrokerId":1,"masterEpoch":2,'
        b'"notInSyncReplicas":[{"alive":false,"brokerAddress":"127.0.0.1:10921","brokerId":2,"brokerName":"b"}],'
        b'"syncStateSetEpoch":3},"n":{"inSyncReplicas":[],"masterEpoch":0,"notInSyncReplicas":[],'
        b'"syncStateSetEpoch":0}}}',
    ),
    (
        EpochCache,
        b'{"brokerId":1,"brokerName":"b","clusterName":"c","epochList":[{"endOffset":100,"epoch":1,"startOffset":0},'
        b'{"endOffset":9223372036854775807,"epoch":2,"startOffset":100}],"maxOffset":200}',
    ),
    (
        HaStatus,
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterAddr":"127.0.0.1:2",'
        b'"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"127.0.0.1:1",'
        b'"diff":0,"inSync":true,"slaveAckOffset":5,"transferFromWhere":0,"transferredByteInSecond":0}],'
        b'"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":5}',
    ),
]


@pytest.mark.parametrize(("kind", "text"), JAVA, ids=lambda value: getattr(value, "__name__", ""))
def test_what_java_writes_is_read_and_written_byte_for_byte(kind: type[Body], text: bytes) -> None:
    assert kind.decode(text).encode() == text


def test_numeric_keys_are_read_quoted_and_bare() -> None:
    """Java's controller writes them bare."""
    reply = ElectMasterReply.decode(ELECTED % BARE)
    assert reply.group is not None
    assert reply.group.broker_addrs == {1: "127.0.0.1:10911", 2: "127.0.0.1:10921"}
    assert ElectMasterReply.decode(ELECTED % QUOTED) == reply


def test_the_set_in_step_is_a_set() -> None:
    """Ids that come twice, in any order or as text are the same set; it is written in order."""
    read = SyncStateSet.decode(b'{"syncStateSetEpoch":"3","syncStateSet":[30,2,"1",2]}')
    assert read == SyncStateSet(members=frozenset({1, 2, 30}), epoch=3)
    assert json.loads(read.encode())["syncStateSet"] == [1, 2, 30]
    assert SyncStateSet.decode(b"{}") == SyncStateSet()


def test_an_epoch_that_is_not_over_has_an_open_end() -> None:
    cache = EpochCache.decode(b'{"epochList":[{"epoch":7,"startOffset":5}]}')
    assert cache.epochs[0].end_offset == OPEN_END


def test_names_of_groups_are_a_bare_list() -> None:
    assert encode_names(["b", "n"]) == b'["b","n"]'
    assert decode_names(b'["b","n"]') == ["b", "n"]


@pytest.mark.parametrize("data", [None, b"", b"{", b"7", b'{"syncStateSet":["x"]}', b'{"syncStateSet":7}', b"\xff"])
def test_a_bad_set_is_an_error(data: bytes | None) -> None:
    with pytest.raises(BodyError, match="SyncStateSet"):
        SyncStateSet.decode(data)


@pytest.mark.parametrize("data", [b"{}", b"[1]", b'{"a":["b"]}'])
def test_a_bad_list_of_names_is_an_error(data: bytes) -> None:
    with pytest.raises(BodyError):
        decode_names(data)
