"""Bodies against the shapes that the real Java classes produce."""

from __future__ import annotations

import json

import pytest

from rocketlake.model.group import CustomizedRetry, ExponentialRetry, GroupConfig, RetryPolicy, RetryPolicyType
from rocketlake.model.group import SimpleSubscription as ModelSubscription
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.model.subscription import parse_subscription
from rocketlake.model.topic import DataVersion, TopicConfig, TopicFilterType
from rocketlake.protocol.bodies.body import BodyError
from rocketlake.protocol.bodies.client import (
    AllProducers,
    ConsumeDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStatus,
    GroupMembers,
    ProcessQueueEntry,
)
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.group import GroupEntry, GroupTable
from rocketlake.protocol.bodies.heartbeat import ClientConfigCheck, ConsumerEntry, Heartbeat, SubscriptionEntry
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.long_text import at_once
from rocketlake.protocol.bodies.offset import ConsumerStatus, CorrectionOffsets, DelayOffsets, OffsetTable, ResetOffsets
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.bodies.route import BrokerMemberGroup, ClusterInfo, MemberGroupEntry, RouteBody
from rocketlake.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    GroupOffsets,
    KVTable,
    TopicList,
    TopicOffsets,
    TopicStats,
)
from rocketlake.protocol.bodies.topic import TopicEntry, TopicTable

QUEUE = MessageQueue("T", "b", 3)
QUEUE_TEXT = b'{"brokerName":"b","queueId":3,"topic":"T"}'


def test_a_heartbeat_of_java_is_read() -> None:
    data = (
        b'{"clientID":"ip@pid#t","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":'
        b'"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":'
        b'false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,'
        b'"tagsSet":["TagA"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":'
        b'[{"groupName":"pg"}],"withoutSub":false}'
    )
    beat = Heartbeat.decode(data)
    assert beat.client_id == "ip@pid#t"
    assert [producer.group_name for producer in beat.producers] == ["pg"]
    subscription = beat.consumers[0].subscriptions[0].to_model()
    assert subscription.tags == {"TagA"}
    assert subscription.tag_codes == {2598919}
    assert json.loads(beat.encode()) == json.loads(data)


def test_a_heartbeat_with_nulls_and_numbers_as_text_is_read() -> None:
    beat = Heartbeat.decode(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","tagsSet":null,'
        b'"subVersion":"17","expressionType":null}]}],"producerDataSet":null,"heartbeatFingerprint":"-5",}'
    )
    assert beat.fingerprint == -5
    assert beat.producers == []
    assert beat.consumers[0].subscriptions[0].sub_version == 17
    assert beat.consumers[0].subscriptions[0].to_model().expression_type == "TAG"


def test_a_subscription_survives() -> None:
    subscription = parse_subscription("T", "a || b", version=5)
    assert SubscriptionEntry.from_model(subscription).to_model() == subscription
    check = ClientConfigCheck(client_id="c", group="g", subscription=SubscriptionEntry.from_model(subscription))
    assert ClientConfigCheck.decode(check.encode()) == check
    assert ConsumerEntry(group_name="g").subscriptions == []


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"null", b'{"clientID":[1]}', b"{}", b"\xff", b"[" * 200_000])
def test_a_bad_body_is_an_error_that_names_the_class(data: bytes | None) -> None:
    with pytest.raises(BodyError, match="Heartbeat"):
        Heartbeat.decode(data)


def route() -> Route:
    return Route(
        queues=[QueueInfo("b", 8, 4, 6, 0)],
        brokers=[BrokerInfo("c", "b", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})],
        order_config="b:4",
    )


def test_a_route_has_two_flavours_and_both_are_read() -> None:
    standard = RouteBody.from_model(route()).encode()
    old = RouteBody.from_model(route()).encode(standard=False)
    assert b'"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}' in standard
    assert b'"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}' in old
    assert RouteBody.decode(standard).to_model() == RouteBody.decode(old).to_model() == route()


def test_absent_members_are_left_out_of_a_route() -> None:
    members = json.loads(RouteBody.from_model(Route()).encode())
    assert members == {"brokerDatas": [], "filterServerTable": {}, "queueDatas": []}


def test_cluster_and_member_group_leave_numeric_keys_unquoted() -> None:
    broker = RouteBody.from_model(route()).broker_datas[0]
    cluster = ClusterInfo(brokers={"b": broker}, clusters={"c": ["b"]})
    assert b'{0:"10.0.0.1:10911"' in cluster.encode()
    assert ClusterInfo.decode(cluster.encode()) == cluster
    group = BrokerMemberGroup(group=MemberGroupEntry(broker_addrs={0: "a"}, broker_name="b", cluster="c"))
    assert group.encode() == b'{"brokerMemberGroup":{"brokerAddrs":{0:"a"},"brokerName":"b","cluster":"c"}}'
    assert BrokerMemberGroup.decode(group.encode()) == group


def test_a_topic_has_the_members_of_java() -> None:
    assert json.loads(TopicEntry.from_model(TopicConfig("T")).encode()) == {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 16, "topicFilterType": "SINGLE_TAG",
        "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 16,
    }  # fmt: skip


def test_a_topic_table_survives() -> None:
    config = TopicConfig("T", 4, 2, 4, TopicFilterType.MULTI_TAG, 1, True, {"a": "b"})
    table = TopicTable.from_model(DataVersion(1, 2, 3), [config])
    read = TopicTable.decode(table.encode())
    assert read.version() == DataVersion(1, 2, 3)
    assert read.configs() == {"T": config}
    assert TopicTable.decode(b"{}").version() == DataVersion()


def test_a_group_has_the_members_and_defaults_of_java() -> None:
    assert json.loads(GroupEntry.from_model(GroupConfig("g")).encode()) == {
        "attributes": {}, "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
        "consumeFromMinEnable": True, "consumeMessageOrderly": False, "consumeTimeoutMinute": 15, "groupName": "g",
        "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0, "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16, "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
    }  # fmt: skip


def test_a_group_survives_with_its_retry_policy_and_subscriptions() -> None:
    config = GroupConfig(
        "g",
        retry_policy=RetryPolicy(RetryPolicyType.EXPONENTIAL, ExponentialRetry(1, 2, 3), CustomizedRetry((7, 8))),
        subscriptions=(ModelSubscription("T", "a", "TAG", 4),),
        attributes={"k": "v"},
    )
    table = GroupTable(
        data_version=DataVersionBody(counter=1), groups={"g": GroupEntry.from_model(config)}, forbidden={"g": {"t": 4}}
    )
    read = GroupTable.decode(table.encode())
    assert read == table
    assert read.groups["g"].to_model() == config


def test_offset_tables_are_written_with_bare_numbers_as_keys() -> None:
    table = OffsetTable(data_version=DataVersionBody(timestamp=9), offset_table={"T@g": {0: 5, 1: 6}})
    assert b'"offsetTable":{"T@g":{0:5,1:6}}' in table.encode()
    assert OffsetTable.decode(table.encode()) == table
    assert DelayOffsets(offset_table={1: 100, 2: 0}).encode() == b'{"offsetTable":{1:100,2:0}}'
    assert DelayOffsets.decode(b'{"offsetTable":{"1":100,"2":0}}').offset_table == {1: 100, 2: 0}
    assert CorrectionOffsets(correction_offsets={0: 5}).encode() == b'{"correctionOffsets":{0:5}}'


def test_reset_offsets_have_queues_as_object_keys() -> None:
    body = ResetOffsets({QUEUE: 7})
    assert body.encode() == b'{"offsetTable":{' + QUEUE_TEXT + b":7}}"
    assert ResetOffsets.decode(body.encode()).offsets == {QUEUE: 7}


def test_reset_offsets_are_read_from_a_string_key_and_from_the_cpp_list() -> None:
    quoted = b'{"offsetTable":{' + json.dumps(QUEUE_TEXT.decode()).encode() + b":7}}"
    assert ResetOffsets.decode(quoted).offsets == {QUEUE: 7}
    as_list = ResetOffsets({QUEUE: 7}).encode(as_list=True)
    assert json.loads(as_list) == {"offsetTable": [{"brokerName": "b", "queueId": 3, "topic": "T", "offset": 7}]}
    assert ResetOffsets.decode(as_list).offsets == {QUEUE: 7}


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"offsetTable":7}',
        b'{"offsetTable":{"x":7}}',
        b'{"offsetTable":[7]}',
        b'{"offsetTable":[{"topic":"T"}]}',
        b'{"offsetTable":{{"topic":"T"}:7}}',
    ],
)
def test_bad_reset_offsets_are_an_error(data: bytes) -> None:
    with pytest.raises(BodyError):
        ResetOffsets.decode(data)


def test_consumer_status_survives() -> None:
    status = ConsumerStatus({QUEUE: 1}, {"cid": {QUEUE: 2}})
    read = ConsumerStatus.decode(status.encode())
    assert (read.queues, read.clients) == ({QUEUE: 1}, {"cid": {QUEUE: 2}})


def test_lock_bodies_have_java_s_names() -> None:
    body = LockBody(client_id="c", consumer_group="g", queues=[QueueEntry.from_model(QUEUE)])
    assert json.loads(body.encode()) == {
        "clientId": "c", "consumerGroup": "g", "mqSet": [json.loads(QUEUE_TEXT)], "onlyThisBroker": False,
    }  # fmt: skip
    reply = LockReply.decode(b'{"lockOKMQSet":[' + QUEUE_TEXT + b"]}")
    assert [entry.to_model() for entry in reply.queues] == [QUEUE]


def test_stats_have_queues_as_object_keys() -> None:
    topic = TopicStats({QUEUE: TopicOffsets(min_offset=1, max_offset=9, last_update_timestamp=5)}, 1.5)
    assert QUEUE_TEXT + b":{" in topic.encode()
    assert TopicStats.decode(topic.encode()).offsets == topic.offsets
    assert TopicStats.decode(topic.encode()).put_tps == 1.5
    group = ConsumeStats({QUEUE: GroupOffsets(broker_offset=9, consumer_offset=4, last_timestamp=5, pull_offset=6)})
    assert ConsumeStats.decode(group.encode()).offsets == group.offsets
    rows = iter([("g", iter([(0.0, iter(group.offsets.items()))]))])
    whole = b"".join(at_once(ConsumeStatsList("a").encoding(rows)))
    assert whole.startswith(b'{"brokerAddr":"a","consumeStatsList":[{"g":[{"consumeTps":0.0,"offsetTable":{{')
    assert whole.endswith(b'"totalDiff":5,"totalInflightDiff":2}')


def test_running_info_survives() -> None:
    info = ConsumerRunningInfo(
        properties={"PROP_CLIENT_VERSION": "V5_3_3"},
        subscriptions=[SubscriptionEntry(topic="T")],
        queues={QUEUE: ProcessQueueEntry(commit_offset=5, cached_msg_size_in_mi_b=2, dropped=True)},
        status={"T": ConsumeStatus(consume_ok_tps=1.5)},
        jstack="text",
    )
    text = info.encode()
    assert b'"droped":true' in text
    assert b'"cachedMsgSizeInMiB":2' in text
    assert b'"consumeOKTPS":1.5' in text
    read = ConsumerRunningInfo.decode(text)
    assert vars(read) == vars(info)


def test_running_info_with_a_reference_as_key_is_tolerated() -> None:
    read = ConsumerRunningInfo.decode(b'{"mqTable":{{"$ref":"$.mqPopTable.null"}:{"droped":false}},"properties":{}}')
    assert read.queues == {}


def test_lists_and_tables_have_java_s_names() -> None:
    assert GroupMembers(client_ids=["a"]).encode() == b'{"consumerIdList":["a"]}'
    assert KVTable(table={"k": "v"}).encode() == b'{"table":{"k":"v"}}'
    assert TopicList(topics=["T"]).encode() == b'{"topicList":["T"]}'
    assert (
        b'"remoteIP":"1.2.3.4"'
        in AllProducers.decode(b'{"data":{"g":[{"clientId":"c","remoteIP":"1.2.3.4"}]}}').encode()
    )
    assert json.loads(ConsumerConnection().encode()) == {"connectionSet": [], "subscriptionTable": {}}
    assert b'"spentTimeMills":7' in ConsumeDirectlyResult(consume_result="CR_SUCCESS", spent_time_mills=7).encode()
