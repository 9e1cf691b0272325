from __future__ import annotations

from typing import Any

import pytest

from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.outgoing import (
    check,
    properties_of,
    sys_flag_of,
    topic_of_all,
    type_of,
    type_of_properties,
)
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.convert.times import timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code, Encoding, MessageType

NOW = 1_700_000_000_000
DAY = 24 * 3600 * 1000


def message(body: bytes = b"body", properties: dict[str, str] | None = None, **system: Any) -> Any:
    return v2.Message(
        topic=v2.Resource(name="T"),
        user_properties=properties or {},
        system_properties=v2.SystemProperties(**{"message_id": "0102", **system}),
        body=body,
    )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (message(b""), Code.MESSAGE_BODY_EMPTY),
        (message(bytes(101)), Code.MESSAGE_BODY_TOO_LARGE),
        (message(tag=" "), Code.ILLEGAL_MESSAGE_TAG),
        (message(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
        (message(tag="a\x7f"), Code.ILLEGAL_MESSAGE_TAG),
        (message(keys=["k", "\t"]), Code.ILLEGAL_MESSAGE_KEY),
        (message(keys=["k\x01"]), Code.ILLEGAL_MESSAGE_KEY),
        (message(message_group="g" * 64), Code.ILLEGAL_MESSAGE_GROUP),
        (message(message_id="i" * 4097), Code.ILLEGAL_MESSAGE_ID),
        (message(trace_context="t" * 2048, born_host="b" * 2048, message_id="i"), Code.ILLEGAL_MESSAGE_ID),
        (message(message_group="ä" * 32), Code.ILLEGAL_MESSAGE_GROUP),
        (message(message_group="  "), Code.ILLEGAL_MESSAGE_GROUP),
        (message(message_group="g\x9f"), Code.ILLEGAL_MESSAGE_GROUP),
        (message(properties={"KEYS": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(properties={"a\x02": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(properties={"a": "x\x00"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(properties={str(each): "" for each in range(129)}), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(properties={"a": "ä" * 8192}), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(keys=["k" * 16384, "k"]), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(message_id=""), Code.ILLEGAL_MESSAGE_ID),
        (message(message_id=" "), Code.ILLEGAL_MESSAGE_ID),
        (message(message_id="1\x02TRAN_MSG\x01true"), Code.ILLEGAL_MESSAGE_ID),
        (message(trace_context="a\x02WAIT\x01false"), Code.BAD_REQUEST),
        (message(born_host="a\x02WAIT\x01false"), Code.BAD_REQUEST),
        (message(lite_topic="a b"), Code.ILLEGAL_LITE_TOPIC),
        (message(lite_topic="a" * 65), Code.ILLEGAL_LITE_TOPIC),
        (message(delivery_timestamp=timestamp(NOW + DAY + 1)), Code.ILLEGAL_DELIVERY_TIME),
        (
            message(message_type=MessageType.TRANSACTION, delivery_timestamp=timestamp(NOW)),
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        ),
        (
            message(
                message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=v2.Duration(seconds=3601)
            ),
            Code.BAD_REQUEST,
        ),
    ],
)
def test_messages_that_are_refused(sent: Any, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        check(sent, Limits(body_bytes_max=100), NOW)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "sent",
    [
        message(bytes(100), tag="", keys=[""], message_group="g" * 63),
        message(properties={"__SHARDINGKEY": "as Apache's proxy", "größe": "ä" * 8000}),
        message(delivery_timestamp=timestamp(NOW + DAY)),
        message(delivery_timestamp=timestamp(5)),
        message(message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=v2.Duration(seconds=3600)),
        message(lite_topic="chat-1_a", priority=0),
    ],
)
def test_messages_that_are_taken(sent: Any) -> None:
    check(sent, Limits(body_bytes_max=100), NOW)
    assert properties_of(sent, "1.2.3.4")["UNIQ_KEY"] == "0102"


def test_no_limits() -> None:
    wide = Limits(0, 0, 0, 0, 64, 0, 0, 0, 0)
    sent = message(
        bytes(5 << 20), {str(each): "x" * 99 for each in range(999)}, message_group="g" * 999,
        delivery_timestamp=timestamp(NOW + 99 * DAY),
    )  # fmt: skip
    check(sent, wide, NOW)
    assert len(properties_of(sent, "")) == 999 + 3


def test_properties_of_a_plain_message() -> None:
    sent = message(properties={"color": "red", "empty": ""}, tag="t", keys=["a", "", "b"])
    assert properties_of(sent, "1.2.3.4") == {
        "color": "red", "TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "0102", "__BORNHOST": "1.2.3.4",
    }  # fmt: skip
    assert sys_flag_of(sent) == 0
    assert type_of(sent) is MessageType.NORMAL


def test_properties_of_each_field() -> None:
    sent = message(
        message_group="orders-7",
        trace_context="00-1-2",
        born_host="client",
        born_timestamp=v2.Timestamp(seconds=5, nanos=7_999_999),
        body_encoding=Encoding.GZIP,
        delivery_attempt=2,
    )
    assert properties_of(sent, "1.2.3.4") == {
        "UNIQ_KEY": "0102", "__SHARDINGKEY": "orders-7", "TRACE_CONTEXT": "00-1-2", "__BORNHOST": "client",
        "BORN_TIMESTAMP": "5007", "RECONSUME_TIME": "2",
    }  # fmt: skip
    assert sys_flag_of(sent) == 1
    assert type_of(sent) is MessageType.FIFO


def test_properties_of_a_half_message() -> None:
    sent = message(message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=v2.Duration(seconds=30))
    assert properties_of(sent, "") == {
        "UNIQ_KEY": "0102", "TRAN_MSG": "true", "PGROUP": "T", "CHECK_IMMUNITY_TIME_IN_SECONDS": "30",
    }  # fmt: skip
    assert sys_flag_of(sent) == 4
    assert type_of(sent) is MessageType.TRANSACTION


@pytest.mark.parametrize(
    ("system", "kind", "name", "value"),
    [
        (
            {"delivery_timestamp": timestamp(99_001), "message_group": "g"},
            MessageType.DELAY,
            "TIMER_DELIVER_MS",
            "99001",
        ),
        ({"priority": 0}, MessageType.PRIORITY, "_SYS_MSG_PRIORITY_", "0"),
        ({"lite_topic": "chat"}, MessageType.LITE, "__LITE_TOPIC", "chat"),
        ({"lite_topic": "chat", "message_group": "g"}, MessageType.FIFO, "__SHARDINGKEY", "g"),
        ({"message_type": MessageType.DELAY}, MessageType.NORMAL, "UNIQ_KEY", "0102"),
    ],
)
def test_the_type_is_that_of_the_fields(system: dict[str, Any], kind: MessageType, name: str, value: str) -> None:
    sent = message(**system)
    properties = properties_of(sent, "")
    assert properties[name] == value
    assert type_of(sent) is kind
    assert type_of_properties(properties) is kind


def test_the_topic_of_several() -> None:
    assert topic_of_all([message(), message()]) == "T"
    other = message()
    other.topic.resource_namespace = "n"
    for sent in ([], [message(), other]):
        with pytest.raises(Refused) as refused:
            topic_of_all(sent)
        assert refused.value.code is Code.MESSAGE_CORRUPTED
    bad = message()
    bad.topic.name = "a b"
    with pytest.raises(Refused) as refused:
        topic_of_all([bad])
    assert refused.value.code is Code.ILLEGAL_TOPIC
