from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model import names
from rocketlake.model.names import check_group, check_topic


@pytest.mark.parametrize(
    "topic", ["T", "a-b_c", "%RETRY%group", "%DLQ%g", "a|b", "T" * 127, "%RETRY%" + "g" * 120, "rmq_sys_x"]
)
def test_names_a_topic_may_have(topic):
    check_topic(topic)
    with pytest.raises(UsageError, match="topic"):
        check_topic(topic + " ")


@pytest.mark.parametrize(
    "topic", ["", " ", "a b", "a/b", "../x", "a.b", "é", "T" * 128, "%RETRY%" + "g" * 249, "a\n", "a\0"]
)
def test_names_a_topic_may_not_have(topic):
    with pytest.raises(UsageError, match="topic"):
        check_topic(topic)


def test_a_group_name_may_be_120_long():
    check_group("g" * 120)
    for group in ("g" * 121, "", "a b", "a@b"):
        with pytest.raises(UsageError, match="group"):
            check_group(group)


def test_names_made_from_groups():
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.retry_topic("%RETRY%g") == "%RETRY%g"
    assert names.dead_letter_topic("g") == "%DLQ%g"
    assert names.group_of_retry_topic("%RETRY%g") == "g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("g")
    assert names.is_dead_letter_topic("%DLQ%g")
    assert names.is_reply_topic("c_REPLY_TOPIC")


def test_system_names():
    for topic in ("TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_anything", "SELF_TEST_TOPIC"):
        assert names.is_system_topic(topic)
    assert not names.is_system_topic("TopicTest")
    for topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_REVIVE_LOG_DefaultCluster"):
        assert not names.is_sendable_topic(topic)
    assert names.is_sendable_topic("TBW102")
    assert names.is_system_group("CID_RMQ_SYS_x")
    assert names.is_system_group("TOOLS_CONSUMER")
    assert not names.is_system_group("mine")
