"""The property names that have a meaning in RocketMQ, and those of them that leave a send plain."""

from __future__ import annotations

import pytest

from rocketlake.model import property_names as names

SEPARATORS = {names.NAME_SEPARATOR, names.PAIR_SEPARATOR, names.KEY_SEPARATOR}

# Every name of SYSTEM that is not PLAIN, with what the ordinary path does about it, or would have to.
NOT_PLAIN = {
    "parked, or refused where no timer is": {
        "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DELAY_LEVEL", "TIMER_DEL_UNIQKEY", "TIMER_ROLL_LABEL",
    },
    "half messages and their checks": {
        "TRAN_MSG", "PGROUP", "__transactionId__", "TRAN_PREPARED_QUEUE_OFFSET", "TRANS_OFFSET",
        "TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS",
    },
    "parked messages and retries: only the broker writes them": {
        "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "ORIGIN_MESSAGE_ID", "ORIGIN_GROUP", "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "LAST_ERROR",
    },
    "replaced or taken away by the broker": {"MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK"},
    "choose the queue, or store one message in many": {
        "_SYS_MSG_PRIORITY_", "__LITE_TOPIC", "INNER_NUM", "INNER_BASE", "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
    },
    "pop": {"POP_CK_OFFSET", "1ST_POP_TIME"},
    "written by the store": {"__CRC32#", "__RL_ENDS", "__RL_LITE_BEFORE"},
    "forwarded messages and replies": {
        "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "MSG_TYPE", "PUSH_REPLY_TIME", "ARRIVE_TIME", "TRANSFER_FLAG",
        "CORRECTION_FLAG", "MQ2_FLAG", "DUP_INFO", "EXTEND_UNIQ_INFO",
    },
    "of a message that was read": {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"},
}  # fmt: skip

# MessageConst of Apache RocketMQ 5.5.1, without its prefix and its separator.
APACHE = set(
    """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE DUP_INFO
    CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET TRANS_OFFSET __transactionId__
    TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER
    MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY PROPERTY_FORWARD_QUEUE_ID REDIRECT
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC TIMER_DELIVER_MS __BORNHOST
    BORN_TIMESTAMP TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY
    TIMER_DELAY_LEVEL TIMER_DELAY_MS TIMER_ROLL_LABEL __CRC32# DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
    ORIGIN_GROUP _SYS_MSG_PRIORITY_ __LITE_TOPIC
    """.split()  # noqa: SIM905
)
OWN = {names.PRODUCER_SEQUENCE, names.ALL_ENDS, names.LITE_BEFORE, names.LAST_ERROR}


def test_each_name_is_decided_once() -> None:
    """A new name fails here until it stands in PLAIN, or above with its reason."""
    decided = [name for group in NOT_PLAIN.values() for name in group] + sorted(names.PLAIN)
    assert len(decided) == len(set(decided))
    assert set(decided) == names.SYSTEM


def test_all_names_of_the_module_are_system_names() -> None:
    constants = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert constants - SEPARATORS == names.SYSTEM


def test_they_are_those_of_apache_and_three_of_ours() -> None:
    assert names.SYSTEM - OWN == APACHE


@pytest.mark.parametrize("name", sorted(names.SYSTEM))
def test_a_system_name_is_plain_if_it_is_listed(name: str) -> None:
    assert names.is_plain(name) is (name in names.PLAIN)


@pytest.mark.parametrize("family", names.FAMILIES)
def test_a_name_that_a_later_release_may_add_is_not_plain(family: str) -> None:
    assert not names.is_plain(family + "NEW")


@pytest.mark.parametrize("name", ["color", "orderId", "TAG", "KEYSX", "TIMER", "REGION", "_id", "Ü", "x" * 300])
def test_names_of_users_are_plain(name: str) -> None:
    assert names.is_plain(name)
