"""Which requests are plain: by their properties as model/property_names.py says, by their header fields as the kernels
and protocol/plain_fields.py say. What real clients send is plain."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.broker.hot.plain_pull import PlainPullCutter
from rocketlake.broker.hot.plain_run import AnswerParts
from rocketlake.broker.hot.plain_send import PlainSendCutter
from rocketlake.broker.hot.plain_topics import PlainTopic, PlainTopics
from rocketlake.codec.property_scan import leaves_plain
from rocketlake.model import property_names as names
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.fields import Header
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.headers.transaction import EndTransactionHeader
from rocketlake.protocol.plain_fields import PASSED_FIELDS
from rocketlake.protocol.request_code import RequestCode

FRAMES = Path(__file__).parent.parent / "golden" / "frames"
HOST = b"\x7f\0\0\1\0\0\0\1"

SEND = {
    "a": "group", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01K1\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "g", "topic": "T", "queueId": "1", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "2",
    "commitOffset": "0", "suspendTimeoutMillis": "500", "subVersion": "5", "expressionType": "TAG",
}  # fmt: skip

# Header fields that another path must see.
STRANGE = ["SecurityToken", "OnsChannel", "proxyFrowardClientId", "liteTopic", "N", "o", "zz"]


def frame(code: int, fields: dict[str, str], codec: Codec, body: bytes = b"") -> bytes:
    command = Command(code, opaque=7, language="JAVA", version=433, fields=fields, body=body)
    return b"".join(map(bytes, encode_command(command, codec)))


def is_plain_send(chunk: bytes) -> bool:
    parts = AnswerParts((b"",) * 6, b"", (b"",) * 3, b"")
    limits = 4 << 20, 16 << 20, 1 << 20
    topics = PlainTopics(lambda name: PlainTopic(name, 1024, 1024, False))
    cutter = PlainSendCutter(topics, None, None, parts, HOST, b"", True, limits)
    return cutter.cut(chunk, 0, HOST, None) is not None


def is_plain_pull(chunk: bytes) -> bool:
    return PlainPullCutter(16 << 20, 1 << 20).cut(chunk, 0) is not None


def send(codec: Codec, **fields: str) -> bool:
    return is_plain_send(frame(RequestCode.SEND_MESSAGE_V2, SEND | fields, codec, b"body"))


def pull(codec: Codec, **fields: str) -> bool:
    return is_plain_pull(frame(RequestCode.PULL_MESSAGE, PULL | fields, codec))


# -- properties --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", sorted(names.SYSTEM) + [family + "NEW" for family in names.FAMILIES] + ["color", "X"])
def test_a_send_is_plain_by_the_names_of_its_properties(name: str, codec: Codec) -> None:
    properties = "".join(f"{each}\x01a\x02" for each in {"UNIQ_KEY": 1, "before": 1, name: 1, "behind": 1})
    # A sequence makes a batch known again; a single message that carries one loses it in the ordinary path.
    assert send(codec, i=properties) is (names.is_plain(name) and name != names.PRODUCER_SEQUENCE)


@given(st.sampled_from([*sorted(names.SYSTEM), *names.FAMILIES, ""]), st.text("ABKT_x", max_size=3))
def test_the_kernel_names_the_same_names(start: str, end: str) -> None:
    if start + end:
        assert leaves_plain((start + end).encode()) is names.is_plain(start + end)


@pytest.mark.parametrize("codec", Codec)
def test_a_property_text_that_ends_with_a_zero_byte_gets_an_end_mark(codec: Codec) -> None:
    """The store takes such a last record for torn: only the ordinary path adds the end mark behind it."""
    assert send(codec, i="UNIQ_KEY\x01a\x02color\x01red")
    assert not send(codec, i="UNIQ_KEY\x01a\x02color\x01red\0")


# -- header fields -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", STRANGE)
def test_a_field_that_no_kernel_knows_makes_a_request_not_plain(name: str, codec: Codec) -> None:
    assert send(codec)
    assert pull(codec)
    assert not send(codec, **{name: "1"})
    assert not pull(codec, **{name: "1"})


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", sorted(PASSED_FIELDS))
def test_a_field_that_says_nothing_to_a_broker_is_passed(name: str, codec: Codec) -> None:
    assert send(codec, **{name: "true"})
    assert pull(codec, **{name: "true"})


PULL_FIELDS = {*PULL, "subscription", "maxMsgBytes", "requestSource"}
END_FIELDS = {
    "topic", "producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "fromTransactionCheck",
    "msgId", "transactionId",
}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "plain", "not_plain"),
    [
        (SendHeaderV2, set("abcdefghijklm"), set()),
        (PullHeader, PULL_FIELDS, {"proxyFrowardClientId"}),
        (EndTransactionHeader, END_FIELDS, set()),
    ],
)
def test_each_field_of_the_headers_is_decided(header: type[Header], plain: set[str], not_plain: set[str]) -> None:
    """A new field fails here until it is read by the kernel, passed, or listed as not plain."""
    assert {field.encode_name for field in msgspec.structs.fields(header)} <= plain | not_plain | PASSED_FIELDS


@pytest.mark.parametrize("codec", Codec)
def test_a_send_is_plain_however_long_its_properties_are(codec: Codec) -> None:
    """Also where a byte of the length is no ASCII."""
    for size in (1, 100, 127, 128, 129, 200, 255, 256, 400, 32_000):
        assert send(codec, i="UNIQ_KEY\x01K1\x02color\x01" + "r" * size)
        assert not send(codec, i="UNIQ_KEY\x01K1\x02color\x01é" + "r" * size)
    assert not send(codec, bname="é" * 100)


# -- what clients send -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["json", "rocketmq"])
def test_what_the_java_client_sent_is_plain(codec: str) -> None:
    recording = (FRAMES / codec / "broker_requests.bin").read_bytes()
    seen = set()
    at = 0
    while at < len(recording):
        size = 4 + int.from_bytes(recording[at : at + 4], "big")
        chunk = recording[at : at + size]
        at += size
        (command,) = Connection().receive_data(chunk)
        fields = command.fields or {}
        if command.is_response:
            continue
        if command.code == RequestCode.SEND_MESSAGE_V2 and not fields["b"].startswith("%"):
            special = {"DELAY", "TRAN_MSG"} & {pair.split("\x01")[0] for pair in fields["i"].split("\x02")}
            assert is_plain_send(chunk) == (not special), fields
            seen.add("send")
        elif command.code == RequestCode.PULL_MESSAGE:
            assert is_plain_pull(chunk), fields
            seen.add("pull")
    assert seen == {"send", "pull"}


def test_what_a_java_client_of_5x_adds_to_its_requests_is_plain() -> None:
    """With a namespace, a zone and a broker name: more than the recordings have."""
    added = {"ns": "space", "nsd": "true", "bname": "broker-a", "lo": "false", "ReqT": "0"}
    zone = {"__ZONE_NAME": "z", "__ZONE_MODE": "true"}
    assert send(Codec.JSON, **added, **zone, n="broker-a", l="16")
    assert pull(Codec.JSON, **added, **zone, subscription="*", maxMsgBytes="1048576", requestSource="0")


def test_what_the_go_client_pulls_with_is_plain() -> None:
    assert pull(Codec.JSON, subscription="*", sysFlag="6", suspendTimeoutMillis="20000000000")
