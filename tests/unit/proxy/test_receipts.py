from __future__ import annotations

import pytest

from rocketlake.base.errors import ProtocolError
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import PopHandle
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.protocol.headers.lite import PopLiteReplyHeader
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleReplyHeader, PopReplyHeader
from rocketlake.proxy.convert.receipts import Receipt, lite_receipts, receipts, tries
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.services.received import ack_request
from rocketlake.proxy.v2.messages import Code

LITE = "5 1700000000000 60000 999 0 broker-a 0 5 987654 session-1"
TEXT = "100 1700000000000 60000 3 0 broker-a 2 105 987654"


def popped(offset: int, queue_id: int = 2, topic: str = "T", **fields: str) -> StoredMessage:
    return StoredMessage(
        topic,
        properties=fields,
        queue_id=queue_id,
        queue_offset=QueueOffset(offset),
        physical_offset=PhysicalOffset(offset * 1000),
    )


def reply(**fields: str) -> PopReplyHeader:
    return PopReplyHeader(pop_time=1_700_000_000_000, invisible_time=60_000, revive_qid=3, rest_num=0, **fields)


def test_a_receipt_is_its_text() -> None:
    receipt = Receipt.parse(TEXT)
    assert str(receipt) == TEXT
    assert receipt == Receipt(PopHandle(100, 1_700_000_000_000, 60_000, 3, "0", "broker-a", 2, 105), 987_654)
    assert receipt.expires_ms == 1_700_000_060_000
    assert Receipt.parse(TEXT.rpartition(" ")[0]).physical_offset == -1


def test_the_receipt_of_a_lite_message_names_its_lite_topic() -> None:
    receipt = Receipt.parse(LITE)
    assert (str(receipt), receipt.lite) == (LITE, "session-1")
    changed = receipt.renewed(ChangeInvisibleReplyHeader(pop_time=1, invisible_time=2, revive_qid=999))
    assert changed.lite == "session-1"
    assert ack_request("Parent", "g", changed).header(AckHeader).lite_topic == "session-1"


def test_the_receipts_of_a_pop_of_lite_messages() -> None:
    answer = PopLiteReplyHeader(pop_time=7, invisible_time=60_000, revive_qid=999, order_count_info="0;1;2")
    marks = {"__LITE_TOPIC": "a", "INNER_MULTI_QUEUE_OFFSET": "5"}
    found = list(lite_receipts(answer, [popped(1, **marks), None, popped(2, **marks)], "b"))
    assert [(str(receipt), message.reconsume_times) for message, receipt in found] == [
        ("5 7 60000 999 0 b 0 5 1000 a", 0),
        ("5 7 60000 999 0 b 0 5 2000 a", 2),
    ]
    for messages in ([popped(1, **marks)], [popped(1), None, popped(2)]):
        with pytest.raises(ProtocolError):
            list(lite_receipts(answer, messages, "b"))


def test_the_topic_of_a_receipt() -> None:
    of_retry = Receipt.parse(TEXT.replace(" 0 broker", " 2 broker"))
    assert of_retry.topic("T", "g") == "%RETRY%g+T"
    assert Receipt.parse(TEXT).topic("T", "g") == "T"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100 1700000000000 60000 3 0 broker-a 2",
        TEXT + " 1",
        " " + TEXT,
        TEXT.replace("105", "1_5"),
        TEXT.replace("105", "٣"),
        TEXT.replace("105", "9" * 19),
        TEXT.replace("broker-a 2", "broker-a 2147483648"),
        TEXT.replace("broker-a", ""),
        TEXT.replace(" 0 broker", " 7 broker"),
        TEXT.replace("broker-a", "b" * 1000),
        TEXT + "\n",
        LITE.replace("session-1", "a$b"),
    ],
)
def test_texts_that_are_no_receipts(text: str) -> None:
    with pytest.raises(Refused) as refused:
        Receipt.parse(text)
    assert refused.value.code is Code.INVALID_RECEIPT_HANDLE


def test_receipts_of_a_pop() -> None:
    messages = [
        popped(105),
        popped(107),
        popped(4, queue_id=0),
        popped(9, queue_id=5),
        popped(11, POP_CK="11 1700000000000 60000 3 1 broker-a 2 11"),
        popped(12, POP_CK="12 1700000000000 60000 3 2 broker-a 0"),
    ]
    made = receipts(reply(start_offset_info="0 2 100;0 0 4"), messages, "broker-a")
    start = "1700000000000 60000 3"
    assert list(map(str, made)) == [
        f"100 {start} 0 broker-a 2 105 105000",
        f"100 {start} 0 broker-a 2 107 107000",
        f"4 {start} 0 broker-a 0 4 4000",
        f"9 {start} 0 broker-a 5 9 9000",
        f"11 {start} 1 broker-a 2 11 11000",
        f"12 {start} 2 broker-a 0 12 12000",
    ]


def test_a_message_in_its_retry_topic() -> None:
    (made,) = receipts(reply(start_offset_info="1 2 3"), [popped(5, topic="%RETRY%g_T")], "b")
    assert str(made) == "3 1700000000000 60000 3 1 b 2 5 5000"


def test_tries_of_messages_popped_in_order() -> None:
    messages = [popped(105), popped(106), popped(3, queue_id=1), popped(3, queue_id=4)]
    for each in messages:
        each.reconsume_times = 1
    assert tries(reply(order_count_info="0 qo2%105 7;0 2 2;0 1 0"), messages) == [7, 2, 1, 1]
    assert tries(reply(), messages) == [1, 1, 1, 1]


@pytest.mark.parametrize("text", ["0 2 x", "5", "0 2 5;nothing", "0 2 --5", "0 2 \u0664", "0 2 " + "9" * 5000])
def test_a_header_that_no_broker_writes(text: str) -> None:
    with pytest.raises(ProtocolError):
        receipts(reply(start_offset_info=text), [popped(1)], "b")
    with pytest.raises(ProtocolError):
        tries(reply(order_count_info=text), [popped(1)])


def test_a_count_that_no_broker_writes() -> None:
    answer = PopLiteReplyHeader(pop_time=7, invisible_time=60_000, revive_qid=999, order_count_info="9" * 5000)
    with pytest.raises(ProtocolError):
        list(lite_receipts(answer, [popped(1, __LITE_TOPIC="a", INNER_MULTI_QUEUE_OFFSET="5")], "b"))


def test_a_renewed_receipt() -> None:
    renewed = Receipt.parse(TEXT).renewed(ChangeInvisibleReplyHeader(pop_time=5, invisible_time=6, revive_qid=7))
    assert str(renewed) == "105 5 6 7 0 broker-a 2 105 987654"
