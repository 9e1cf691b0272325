"""Enums of Java in bodies, as names and as ordinals: fastjson reads both, so do we."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketlake.protocol.bodies import assignment, client, group, topic
from rocketlake.protocol.bodies.body import Body, BodyError
from rocketlake.protocol.bodies.heartbeat import Heartbeat

# As rocketmq-client-cpp (PyPI rocketmq 0.4.4) sends it.
CPP_HEARTBEAT = (
    b'{"clientID":"127.0.0.1@7","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g",'
    b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["2556"],"subString":"TagA","subVersion":"1795400000000",'
    b'"tagsSet":["TagA"],"topic":"T"}]}],"producerDataSet":[]}'
)


def test_a_heartbeat_of_the_cpp_client_is_read() -> None:
    (consumer,) = Heartbeat.decode(CPP_HEARTBEAT).consumers
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert consumer.subscriptions[0].code_set == [2556]


@pytest.mark.parametrize(
    ("kind", "path", "names"),
    [
        (Heartbeat, "consumerDataSet.0.consumeType", ["CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"]),
        (Heartbeat, "consumerDataSet.0.messageModel", ["BROADCASTING", "CLUSTERING"]),
        (assignment.AssignmentRequest, "messageModel", ["BROADCASTING", "CLUSTERING"]),
        (assignment.RequestModeBody, "mode", ["PULL", "POP"]),
        (assignment.AssignmentReply, "messageQueueAssignments.0.mode", ["PULL", "POP"]),
        (client.ConsumerConnection, "messageModel", ["BROADCASTING", "CLUSTERING"]),
        (client.ConsumerConnection, "consumeFromWhere", ["CONSUME_FROM_LAST_OFFSET"]),
        (client.ConsumeDirectlyResult, "consumeResult", ["CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT"]),
        (topic.TopicEntry, "topicFilterType", ["SINGLE_TAG", "MULTI_TAG"]),
        (topic.TopicConfigList, "topicConfigList.0.topicFilterType", ["SINGLE_TAG", "MULTI_TAG"]),
        (topic.TopicTable, "topicConfigTable.T.topicFilterType", ["SINGLE_TAG", "MULTI_TAG"]),
        (group.GroupEntry, "groupRetryPolicy.type", ["EXPONENTIAL", "CUSTOMIZED"]),
        (group.GroupTable, "subscriptionGroupTable.g.groupRetryPolicy.type", ["EXPONENTIAL", "CUSTOMIZED"]),
    ],
)
def test_every_enum_of_every_body_may_be_an_ordinal(kind: type[Body], path: str, names: list[str]) -> None:
    for ordinal, name in enumerate(names):
        assert kind.decode(_body(path, ordinal)) == kind.decode(_body(path, name))
        assert json.dumps(name) in kind.decode(_body(path, ordinal)).encode().decode()


def test_an_ordinal_that_no_name_has_is_refused_with_its_place() -> None:
    with pytest.raises(BodyError, match=r"got `int` - at `\$.consumerDataSet\[0\].consumeType`"):
        Heartbeat.decode(_body("consumerDataSet.0.consumeType", 3))
    with pytest.raises(BodyError, match="messageModel"):
        assignment.AssignmentRequest.decode(_body("messageModel", -1))


_WANTED = {
    "clientID": "c", "clientId": "c", "groupName": "g", "consumerGroup": "g", "topic": "T", "topicName": "T",
    "messageQueue": {"topic": "T", "brokerName": "b", "queueId": 0},
}  # fmt: skip


def _body(path: str, value: Any) -> bytes:
    """A body with the members that must be there at each level, and `value` at `path`."""
    for step in reversed(path.split(".")):
        value = [value] if step.isdigit() else {**_WANTED, step: value} if step not in ("T", "g") else {step: value}
    return json.dumps(value).encode()
