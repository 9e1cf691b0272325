"""The text of trace records as Apache RocketMQ's encoder wrote it, and ours."""

from __future__ import annotations

from pathlib import Path

from rocketlake.client.trace import format as text

LINES = (Path(__file__).parent / "trace.txt").read_text().splitlines()
ID, PLACE, CALL = (
    "0A000001000018B4AAC27D1B1A2B0001",
    "0A00000900002A9F000000000000CAFE",
    "0A000001000018B4AAC27D1B1A2B0007",
)
AT, REGION, GROUP, TOPIC, HOST = 1780000000123, "DefaultRegion", "sellers", "Orders", "10.0.0.9:10911"
EXPECTED: list[text.Record] = [
    text.Pub(AT, REGION, GROUP, TOPIC, ID, "té", "k1 k2", HOST, 17, 42, text.MessageType.DELAYED, PLACE, True),
    text.Pub(AT, REGION, GROUP, TOPIC, ID, None, None, HOST, 17, 42, text.MessageType.NORMAL, None, False),
    text.SubBefore(AT, REGION, GROUP, CALL, ID, 3, "k1 k2"),
    text.SubBefore(AT, REGION, GROUP, CALL, ID, 0, None),
    text.SubAfter(CALL, ID, 42, True, "k1 k2", text.ConsumeCode.FAILED, AT, GROUP),
    text.SubAfter(CALL, ID, 42, False, None, text.ConsumeCode.SUCCESS, AT, GROUP),
    text.EndTransaction(
        AT,
        REGION,
        GROUP,
        TOPIC,
        ID,
        "té",
        "k1 k2",
        HOST,
        text.MessageType.DELAYED,
        ID,
        text.TransactionState.UNKNOWN,
        True,
    ),
    text.EndTransaction(
        AT, REGION, GROUP, TOPIC, ID, None, None, HOST, text.MessageType.NORMAL, ID, text.TransactionState.COMMIT, False
    ),
    text.Recall(AT, REGION, GROUP, TOPIC, ID, True),
    text.Recall(AT, REGION, GROUP, TOPIC, ID, False),
]


def test_we_read_what_apache_writes() -> None:
    written = bytes.fromhex("".join(LINES)).decode()
    assert text.decode(written) == EXPECTED


def test_we_write_what_apache_writes() -> None:
    assert [text.encode(record).encode().hex() for record in EXPECTED] == LINES
