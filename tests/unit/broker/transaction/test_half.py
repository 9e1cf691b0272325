"""A message on its way through the half topic; the properties are those that Apache 5.3.3 wrote for the same send."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import RemoteError
from rocketlake.broker.transaction import half as halves
from rocketlake.codec import property_text
from rocketlake.model.message import StoredMessage
from rocketlake.store.results import PutMessage

SENT = {"KEYS": "k0", "TAGS": "A", "UNIQ_KEY": "FD00", "WAIT": "true", "TRAN_MSG": "true", "PGROUP": "txg"}
HALF = SENT | {"__transactionId__": "FD00", "REAL_TOPIC": "Tx", "REAL_QID": "2"}


def stored(**properties: str) -> StoredMessage:
    return StoredMessage(
        "RMQ_SYS_TRANS_HALF_TOPIC", b"0", properties=HALF | properties, flag=5, queue_offset=16, physical_offset=265,
        sys_flag=1, born_ms=3, born_host=("10.0.0.1", 1), store_host=("10.0.0.2", 2), reconsume_times=0,
    )  # fmt: skip


def test_a_half_message_lies_in_the_half_topic_with_its_target_beside_it() -> None:
    message, properties = PutMessage("Tx", 2, b"0", sys_flag=4 | 1), dict(SENT)
    halves.park_half(message, properties, "other")
    assert properties == HALF
    assert (message.topic, message.queue_id, message.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)


def test_the_committed_message_keeps_all_marks_and_has_the_commit_bits() -> None:
    message, properties = halves.committed_copy(stored(TRANSACTION_CHECK_TIMES="2"), None, 2)
    assert properties == HALF | {"TRANSACTION_CHECK_TIMES": "2"}
    assert (message.topic, message.queue_id, message.sys_flag, message.flag) == ("Tx", 2, 8 | 1, 5)
    assert (message.prepared_transaction_offset, message.born_ms) == (265, 3)


def test_a_half_message_of_apaches_whose_own_time_was_over_can_be_committed() -> None:
    """The intake would refuse the timer property, with each commit anew, until the message is given up."""
    _message, properties = halves.committed_copy(stored(TIMER_DELIVER_MS="1"), None, 2)
    assert properties == HALF


def test_a_copy_put_back_says_how_often_its_producer_was_asked() -> None:
    message = halves.put_back_copy(stored(), None, checked=3)
    assert property_text.decode(message.properties) == HALF | {"TRANSACTION_CHECK_TIMES": "3"}
    assert (message.topic, message.queue_id, message.prepared_transaction_offset) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0)


def test_every_copy_carries_the_place_its_producer_knows() -> None:
    for copy in (halves.put_back_copy(stored(), 16, checked=None), halves.given_up_copy(stored(), 16)):
        assert property_text.decode(copy.properties) == HALF | {"TRAN_PREPARED_QUEUE_OFFSET": "16"}
    message, properties = halves.committed_copy(stored(), 7, 3)
    assert (properties["TRAN_PREPARED_QUEUE_OFFSET"], message.queue_id) == ("7", 3)
    assert halves.prepared_offset(stored(TRAN_PREPARED_QUEUE_OFFSET="7")) == 7


def test_marks_of_another_transaction_do_not_count() -> None:
    properties = SENT | {"TRANSACTION_CHECK_TIMES": "15", "TRAN_PREPARED_QUEUE_OFFSET": "1"}
    halves.park_half(PutMessage("Tx", 2, b""), properties, "g")
    assert properties == HALF


@pytest.mark.parametrize(("flag", "mark", "half"), [(0, "true", True), (0, "TRUE", True), (4, "", True), (0, "x", False), (8, "", False), (12, "true", True)])  # fmt: skip  # noqa: E501
def test_what_is_a_half_message(flag: int, mark: str, half: bool) -> None:
    assert halves.is_half(PutMessage("T", 0, b"", sys_flag=flag), {"TRAN_MSG": mark}) is half


def test_a_rollback_is_no_message() -> None:
    with pytest.raises(RemoteError, match="rollback"):
        halves.is_half(PutMessage("T", 0, b"", sys_flag=12), {})


@pytest.mark.parametrize(("text", "ms"), [("5", 5000), ("-1", -1000), ("x", -1000), ("", None)])
def test_the_time_a_producer_wants_to_be_left_alone(text: str, ms: int | None) -> None:
    assert halves.immune_ms(stored(CHECK_IMMUNITY_TIME_IN_SECONDS=text)) == ms
    assert halves.immune_ms(stored()) is None


@pytest.mark.parametrize(("text", "times"), [("3", 3), ("x", 0)])
def test_how_often_a_producer_was_asked(text: str, times: int) -> None:
    assert halves.times_checked(stored(TRANSACTION_CHECK_TIMES=text)) == times
