from __future__ import annotations

import base64

import pytest

from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import RecallHandle
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.proxy.convert.end import Half, dead_letter, end, orphan, recall
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code, MessageType, TransactionResolution, TransactionSource

TOPIC = v2.Resource(name="T")
HALF = Half("broker a", 7, 123_456, "0102AB")


@pytest.mark.parametrize(
    ("resolution", "source", "outcome", "is_answer"),
    [
        (TransactionResolution.COMMIT, TransactionSource.SOURCE_CLIENT, 8, False),
        (TransactionResolution.ROLLBACK, TransactionSource.SOURCE_SERVER_CHECK, 12, True),
        (TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED, TransactionSource.SOURCE_CLIENT, 0, False),
    ],
)
def test_the_end_of_a_transaction(resolution: int, source: int, outcome: int, is_answer: bool) -> None:
    broker, header = end(
        v2.EndTransactionRequest(
            topic=TOPIC, message_id="0102AB", transaction_id=str(HALF), resolution=resolution, source=source
        )
    )
    assert broker == "broker a"
    assert (header.topic, header.producer_group) == ("T", "T")
    assert (header.tran_state_table_offset, header.commit_log_offset) == (7, 123_456)
    assert (header.commit_or_rollback, header.from_transaction_check) == (outcome, is_answer)
    assert (header.msg_id, header.transaction_id) == ("0102AB", "0102AB")


def test_a_half_message_is_its_text() -> None:
    assert Half.parse(str(HALF)) == HALF
    assert str(HALF).isascii() and " " not in str(HALF)


@pytest.mark.parametrize(
    "words",
    [
        None,
        "",
        "1\n7\n8\nid",
        "2\n7\n8\nid\nb",
        "1\n-7\n8\nid\nb",
        f"1\n7\n{'9' * 19}\nid\nb",
        "1\n7\nx\nid\nb",
        b"\xff",
    ],
)
def test_texts_that_name_no_half_message(words: str | bytes | None) -> None:
    raw = words.encode() if isinstance(words, str) else words
    text = "0102030405" if raw is None else base64.urlsafe_b64encode(raw).decode()
    with pytest.raises(Refused) as refused:
        Half.parse(text)
    assert refused.value.code is Code.INVALID_TRANSACTION_ID


def test_an_orphan() -> None:
    stored = StoredMessage("T", b"half", properties={"UNIQ_KEY": "0102AB", "TRAN_MSG": "true", "PGROUP": "T"})
    header = CheckTransactionHeader(tran_state_table_offset=7, commit_log_offset=123_456, transaction_id="0102AB")
    command = orphan(header, stored, "broker a").recover_orphaned_transaction_command
    assert Half.parse(command.transaction_id) == HALF
    assert command.message.body == b"half"
    assert command.message.system_properties.message_type == MessageType.TRANSACTION
    assert not command.message.system_properties.HasField("receipt_handle")
    assert not command.message.user_properties


def test_a_recall() -> None:
    text = RecallHandle("T", "broker-a", "1700000000001", "0102").to_text()
    broker, header = recall(v2.RecallMessageRequest(topic=TOPIC, recall_handle=text))
    assert (broker, header.topic, header.producer_group, header.recall_handle) == ("broker-a", "T", "T", text)


@pytest.mark.parametrize(
    ("handle", "code"),
    [("x", Code.BAD_REQUEST), (RecallHandle("other", "b", "1", "0102").to_text(), Code.ILLEGAL_TOPIC)],
)
def test_recalls_that_are_refused(handle: str, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        recall(v2.RecallMessageRequest(topic=TOPIC, recall_handle=handle))
    assert refused.value.code is code


def test_a_dead_letter() -> None:
    receipt = Receipt.parse("100 1700000000000 60000 3 1 broker-a 2 105 987654")
    header = dead_letter(receipt, "g", "T", "0102")
    assert (header.offset, header.group, header.delay_level) == (987_654, "g", -1)
    assert (header.origin_topic, header.origin_msg_id, header.max_reconsume_times) == ("%RETRY%g_T", "0102", 0)
    with pytest.raises(Refused) as refused:
        dead_letter(Receipt(receipt.handle), "g", "T", "0102")
    assert refused.value.code is Code.INVALID_RECEIPT_HANDLE
