from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue


def test_what_has_a_meaning_is_kept_as_a_property():
    message = Message("T", b"x", tags="A", keys=["k1", "k2"], delay_level=3, sharding_key="s", properties={"mine": "1"})
    assert message.properties == {"mine": "1", "TAGS": "A", "KEYS": "k1 k2", "DELAY": "3", "__SHARDINGKEY": "s"}
    assert (message.tags, message.keys, message.key_list) == ("A", "k1 k2", ["k1", "k2"])
    assert (message.delay_level, message.sharding_key) == (3, "s")
    assert message.user_properties == {"mine": "1", "__SHARDINGKEY": "s"}


def test_a_message_without_properties_waits_for_the_store_and_has_no_delay():
    message = Message("T")
    assert message.properties == {}
    assert message.wait_store_ok
    assert (message.tags, message.keys, message.key_list, message.delay_level) == (None, None, [], 0)
    assert (message.unique_key, message.retry_topic) == (None, None)


def test_attributes_write_properties_and_none_removes_them():
    message = Message("T", tags="A", keys="k")
    message.tags = None
    message.keys = None
    message.delay_level = 2
    message.delay_level = 0
    message.wait_store_ok = False
    message.unique_key = "u"
    assert message.properties == {"WAIT": "false", "UNIQ_KEY": "u"}
    assert not message.wait_store_ok


def test_the_given_properties_are_copied():
    given = {"a": "b"}
    Message("T", properties=given).tags = "A"
    assert given == {"a": "b"}


@pytest.mark.parametrize("body", [bytearray(b"x"), memoryview(b"x")])
def test_a_body_becomes_bytes(body):
    assert Message("T", body).body == b"x"
    assert type(Message("T", body).body) is bytes


def test_a_delay_that_is_no_number_is_none():
    assert Message.with_properties("T", b"", {"DELAY": "soon"}).delay_level == 0


@pytest.mark.parametrize(
    ("asked", "properties"),
    [
        ({"deliver_at": 1_735_689_600_123}, {"TIMER_DELIVER_MS": "1735689600123"}),
        ({"deliver_at": datetime(2025, 1, 1, 0, 0, 0, 122_001, tzinfo=UTC)}, {"TIMER_DELIVER_MS": "1735689600123"}),
        (
            {"deliver_at": datetime(2025, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))},
            {"TIMER_DELIVER_MS": "1735689600000"},
        ),
        ({"delay": 90}, {"TIMER_DELAY_MS": "90000"}),
        ({"delay": 0.0001}, {"TIMER_DELAY_MS": "1"}),
        ({"delay": timedelta(minutes=10, microseconds=1)}, {"TIMER_DELAY_MS": "600001"}),
        ({"delay": 0, "delay_level": 0}, {"TIMER_DELAY_MS": "0"}),
    ],
)
def test_a_time_of_delivery_is_a_property_and_never_earlier(asked, properties):
    message = Message("T", b"x", **asked)
    assert message.properties == properties
    assert message.is_delayed
    assert Message.with_properties("T", b"x", message.properties).properties == properties


def test_a_level_is_a_delay_and_nothing_is_none():
    assert Message("T", delay_level=1).is_delayed
    assert not Message("T").is_delayed


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"deliver_at": datetime(2025, 1, 1)}, "no time zone"),
        ({"deliver_at": -1}, "not a time between"),
        ({"deliver_at": 1735689600.5}, "datetime or epoch milliseconds"),
        ({"deliver_at": "2025-01-01T00:00:00Z"}, "datetime or epoch milliseconds"),
        ({"deliver_at": True}, "datetime or epoch milliseconds"),
        ({"delay": -0.5}, "no time to wait"),
        ({"delay": timedelta(seconds=-1)}, "no time to wait"),
        ({"delay": 1e300}, "no time to wait"),
        ({"delay": float("nan")}, "seconds or a timedelta"),
        ({"delay": "10m"}, "seconds or a timedelta"),
        ({"delay": 1, "deliver_at": 1}, "one of delay_level, deliver_at and delay"),
        ({"delay": 0, "delay_level": 1}, "one of delay_level, deliver_at and delay"),
        ({"deliver_at": 1, "delay_level": 1}, "one of delay_level, deliver_at and delay"),
        ({"properties": {"TIMER_DELAY_SEC": "1"}}, "used by RocketMQ.*give it as delay="),
    ],
)
def test_a_time_of_delivery_that_is_none_is_refused(asked, reason):
    with pytest.raises(UsageError, match=f"(?s){reason}"):
        Message("T", b"x", **asked)


@pytest.mark.parametrize("priority", [0, 3, 2**31 - 1])
def test_a_priority_is_a_property_of_its_own(priority):
    message = Message("T", b"x", priority=priority)
    assert (message.properties, message.priority) == ({"_SYS_MSG_PRIORITY_": str(priority)}, priority)


@pytest.mark.parametrize("text", ["", "high", "-1", "9" * 5000])
def test_a_priority_that_is_no_number_is_none(text):
    assert Message.with_properties("T", b"", {"_SYS_MSG_PRIORITY_": text}).priority is None


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"priority": -1}, "0 or a higher whole number"),
        ({"priority": 2**31}, "0 or a higher whole number"),
        ({"priority": True}, "0 or a higher whole number"),
        ({"priority": 1, "delay": 1}, "neither delayed nor ordered"),
        ({"priority": 1, "delay_level": 1}, "neither delayed nor ordered"),
        ({"priority": 1, "sharding_key": "k"}, "neither delayed nor ordered"),
    ],
)
def test_a_priority_that_cannot_be_is_refused(asked, reason):
    with pytest.raises(UsageError, match=f"(?s){reason}"):
        Message("T", b"x", **asked)


@pytest.mark.parametrize("name", ["KEYS", "UNIQ_KEY", "TRAN_MSG", "POP_CK", "__CRC32#"])
def test_a_reserved_name_is_refused(name):
    with pytest.raises(UsageError, match="used by RocketMQ"):
        Message("T").put_user_property(name, "v")


@pytest.mark.parametrize(
    ("name", "value"), [("", "v"), (" ", "v"), ("n", ""), ("n", " "), ("n\x01", "v"), ("n", "v\x02")]
)
def test_a_property_that_would_not_come_back_is_refused(name, value):
    with pytest.raises(UsageError):
        Message("T").put_user_property(name, value)


@pytest.mark.parametrize(
    ("given", "problem", "cure"),
    [
        ({"tags": 5}, "tags .* not int", "one tag"),
        ({"tags": ["a"]}, "tags .* not list", "one tag"),
        ({"keys": 17}, "not 17", 'keys="order-17"'),
        ({"keys": [17, 18]}, "several texts", 'keys="order-17"'),
        ({"keys": b"k"}, "several texts", 'keys="order-17"'),
        ({"sharding_key": 3}, "sharding_key .* not int", "as text"),
        ({"properties": {"TAGS": "A"}}, "TAGS is used by RocketMQ", "tags="),
        ({"properties": {"KEYS": "A"}}, "KEYS is used by RocketMQ", "keys="),
        ({"properties": {"UNIQ_KEY": "A"}}, "UNIQ_KEY is used by RocketMQ", "unique_key"),
        ({"properties": {"TRAN_MSG": "true"}}, "TRAN_MSG is used by RocketMQ", "another name"),
        ({"properties": {"n": 5}}, "'n' = 5", "as text"),
        ({"properties": {5: "n"}}, "5 = 'n'", "as text"),
        ({"properties": ["n"]}, "names and values, not list", "properties="),
        ({"properties": 5}, "names and values, not int", "properties="),
    ],
)
def test_values_of_another_kind_are_refused_where_the_message_is_made(given, problem, cure):
    with pytest.raises(UsageError, match=problem) as refused:
        Message("T", b"x", **given)
    assert cure in refused.value.hint


def test_a_topic_is_text():
    with pytest.raises(UsageError, match=r"topic .* not int"):
        Message(17, b"x")


@pytest.mark.parametrize("name", ["tags", "keys", "sharding_key", "unique_key"])
def test_values_of_another_kind_are_refused_where_they_are_set(name):
    message = Message("T", b"x")
    with pytest.raises(UsageError, match=f"{name} .* not list"):
        setattr(message, name, ["a"])
    assert message.properties == {}


def test_a_copy_may_have_properties_of_rocketmq():
    given = {"UNIQ_KEY": "u", "n": "1"}
    message = Message.with_properties("T", b"x", given, flag=3)
    message.tags = "A"
    assert (message.topic, message.body, message.flag) == ("T", b"x", 3)
    assert message.properties == {"UNIQ_KEY": "u", "n": "1", "TAGS": "A"}
    assert given == {"UNIQ_KEY": "u", "n": "1"}


def test_names_that_look_reserved_but_are_free():
    message = Message("T")
    for name in (names.SHARDING_KEY, names.TRANSACTION_ID, names.INNER_NUM, names.REDIRECT, names.TRACE_CONTEXT):
        message.put_user_property(name, "v")
    assert len(message.properties) == 5


def test_messages_are_equal_by_value():
    assert Message("T", b"x", tags="A") == Message.with_properties("T", b"x", {"TAGS": "A"})
    assert Message("T", b"x") != Message("T", b"y")
    assert Message("T", b"x") != StoredMessage("T", b"x")
    assert StoredMessage("T", b"x", queue_offset=1) != StoredMessage("T", b"x", queue_offset=2)
    assert Message("T") != "T"
    with pytest.raises(TypeError):
        hash(Message("T"))


def test_the_id_is_the_clients_or_the_place_where_it_is_stored():
    message = StoredMessage("T", store_host=("10.0.0.1", 10911), physical_offset=16, broker_name="b", queue_id=2)
    assert message.offset_message_id == "0A00000100002A9F0000000000000010"
    assert message.message_id == message.offset_message_id
    message.unique_key = "AC11"
    assert message.message_id == "AC11"
    assert message.message_queue == MessageQueue("T", "b", 2)


def test_the_printed_form_shows_the_size_of_the_body_only():
    assert repr(Message("T", b"secret")) == "Message(topic='T', body=6 bytes, properties={})"


def test_the_printed_form_of_a_stored_message_names_its_place():
    message = StoredMessage("T", b"secret", broker_name="b", queue_id=2, queue_offset=17)
    assert repr(message) == "StoredMessage(T@b:2 at 17, body=6 bytes, properties={})"


def test_queues_sort_by_topic_then_broker_then_number():
    queues = [
        MessageQueue("T", "b", 10),
        MessageQueue("T", "b", 9),
        MessageQueue("T", "a", 11),
        MessageQueue("S", "z", 1),
    ]
    assert [str(queue) for queue in sorted(queues)] == ["S@z:1", "T@a:11", "T@b:9", "T@b:10"]
    assert len({*queues, MessageQueue("T", "b", 10)}) == 4
