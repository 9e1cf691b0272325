"""The JSON header: what we write, and what the Java decoder lets pass."""

from __future__ import annotations

import json

import pytest

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Command
from rocketlake.protocol.header_json import decode_json_header, encode_json_header
from rocketlake.protocol.limits import DIALECT_BYTES_MAX, REMARK_CHARS_MAX

SAMPLE = (
    b'{"code":34,"extFields":{"k":"v"},"flag":0,"language":"JAVA","opaque":0,"remark":"r",'
    b'"serializeTypeCurrentRPC":"JSON","version":0}'
)


def test_the_reference_sample_is_written_and_read() -> None:
    command = Command(34, language="JAVA", version=0, remark="r", fields={"k": "v"})
    assert encode_json_header(command) == SAMPLE
    read = decode_json_header(SAMPLE)
    assert (read.code, read.language, read.version, read.opaque, read.flag) == (34, "JAVA", 0, 0, 0)
    assert (read.remark, read.fields) == ("r", {"k": "v"})


def test_none_members_are_left_out_and_empty_fields_are_kept() -> None:
    assert "remark" not in json.loads(encode_json_header(Command(1)))
    assert "extFields" not in json.loads(encode_json_header(Command(1)))
    assert json.loads(encode_json_header(Command(1, fields={})))["extFields"] == {}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(b'{"code":"34","opaque":"7"}', (34, 7, None), id="numbers as text"),
        pytest.param(b"{code:34,opaque:7}", (34, 7, None), id="unquoted names"),
        pytest.param(b"{'code':34,'opaque':7}", (34, 7, None), id="single quotes"),
        pytest.param(b'{"code":34,"opaque":7,}', (34, 7, None), id="trailing comma"),
        pytest.param(b'{"code":34,"opaque":7,"extFields":{"a":1,"b":true,"c":null,"d":2.5}}',
                     (34, 7, {"a": "1", "b": "true", "d": "2.5"}), id="field values of other types"),
        pytest.param(b'{"code":34,"opaque":7,"extFields":null,"remark":null}', (34, 7, None), id="nulls"),
        pytest.param(b'{"code":34,"opaque":7,"new":{"a":[1]}}', (34, 7, None), id="unknown members"),
        pytest.param(b'{"opaque":7}', (0, 7, None), id="code missing"),
        pytest.param(b'{"code":34,"opaque":7,"language":3}', (34, 7, None), id="language as ordinal"),
    ],
)  # fmt: skip
def test_what_java_tolerates_is_tolerated(header: bytes, expected: tuple[int, int, dict[str, str] | None]) -> None:
    command = decode_json_header(header)
    assert (command.code, command.opaque, command.fields) == expected


def test_an_unknown_language_is_kept_as_text_and_a_missing_one_is_other() -> None:
    assert decode_json_header(b'{"code":1,"language":"KOTLIN"}').language == "KOTLIN"
    assert decode_json_header(b'{"code":1}').language == "OTHER"
    assert decode_json_header(b'{"code":1,"language":3,"opaque":"1"}').language == "PYTHON"


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"null",
        b"[]",
        b"17",
        b"{",
        b'{"code":',
        b'{"code":"x"}',
        b'{"code":99999999999}',
        b'{"code":[1]}',
        b'{"code":1,"extFields":[1]}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ],
)
def test_garbage_is_a_protocol_error(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_json_header(garbage)


def test_half_a_surrogate_pair_becomes_text_that_can_be_written_again() -> None:
    command = decode_json_header(b'{"code":1,"remark":"\\ud800","extFields":{"\\udc00":"a\\ud83d"}}')
    assert encode_json_header(command)


def test_more_fields_than_allowed_are_refused() -> None:
    header = encode_json_header(Command(1, fields={f"k{n}": "v" for n in range(11)}))
    with pytest.raises(ProtocolError, match="11 fields"):
        decode_json_header(header, 10)


def test_a_long_remark_is_cut() -> None:
    command = decode_json_header(encode_json_header(Command(1, remark="x" * (REMARK_CHARS_MAX + 1))))
    assert command.remark == "x" * REMARK_CHARS_MAX


def test_a_large_header_may_be_oddly_typed_but_not_oddly_spelled() -> None:
    filler = b'"remark":"' + b"x" * DIALECT_BYTES_MAX + b'"'
    assert decode_json_header(b'{"code":"34",' + filler + b"}").code == 34
    with pytest.raises(ProtocolError):
        decode_json_header(b"{code:34," + filler + b"}")
