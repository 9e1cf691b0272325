"""The text of trace records as Apache RocketMQ's encoder wrote it, and ours."""

from __future__ import annotations

from pathlib import Path

from rocketlake.client.trace.format import (
    ConsumeCode,
    EndTransaction,
    MessageType,
    Pub,
    Recall,
    Record,
    SubAfter,
    SubBefore,
    TransactionState,
    decode,
    encode,
)

LINES = (Path(__file__).parent / "trace.txt").read_text().splitlines()
ID, PLACE, CALL = (
    "0A000001000018B4AAC27D1B1A2B0001",
    "0A00000900002A9F000000000000CAFE",
    "0A000001000018B4AAC27D1B1A2B0007",
)
AT, REGION, GROUP, TOPIC, HOST = 1780000000123, "DefaultRegion", "sellers", "Orders", "10.0.0.9:10911"
EXPECTED: list[Record] = [
    Pub(AT, REGION, GROUP, TOPIC, ID, "té", "k1 k2", HOST, 17, 42, MessageType.DELAYED, PLACE, True),
    Pub(AT, REGION, GROUP, TOPIC, ID, None, None, HOST, 17, 42, MessageType.NORMAL, None, False),
    SubBefore(AT, REGION, GROUP, CALL, ID, 3, "k1 k2"),
    SubBefore(AT, REGION, GROUP, CALL, ID, 0, None),
    SubAfter(CALL, ID, 42, True, "k1 k2", ConsumeCode.FAILED, AT, GROUP),
    SubAfter(CALL, ID, 42, False, None, ConsumeCode.SUCCESS, AT, GROUP),
    EndTransaction(
        AT, REGION, GROUP, TOPIC, ID, "té", "k1 k2", HOST, MessageType.DELAYED, ID, TransactionState.UNKNOWN, True
    ),
    EndTransaction(
        AT, REGION, GROUP, TOPIC, ID, None, None, HOST, MessageType.NORMAL, ID, TransactionState.COMMIT, False
    ),
    Recall(AT, REGION, GROUP, TOPIC, ID, True),
    Recall(AT, REGION, GROUP, TOPIC, ID, False),
]


def test_we_read_what_apache_writes() -> None:
    text = bytes.fromhex("".join(LINES)).decode()
    assert decode(text) == EXPECTED


def test_we_write_what_apache_writes() -> None:
    assert [encode(record).encode().hex() for record in EXPECTED] == LINES
