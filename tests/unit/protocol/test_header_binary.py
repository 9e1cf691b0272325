"""The binary header, byte for byte."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Command
from rocketlake.protocol.header_binary import decode_binary_header, encode_binary_header, fits_binary_header

SAMPLE = bytes.fromhex("0022 00 0000 00000000 00000000 00000001 72 00000008 0001 6b 00000001 76".replace(" ", ""))


def sample_command() -> Command:
    return Command(34, language="JAVA", version=0, remark="r", fields={"k": "v"})


def test_the_reference_sample_is_written_and_read() -> None:
    assert encode_binary_header(sample_command()) == SAMPLE
    command = decode_binary_header(SAMPLE)
    assert (command.code, command.language, command.version) == (34, "JAVA", 0)
    assert (command.opaque, command.flag, command.remark, command.fields) == (0, 0, "r", {"k": "v"})


def test_no_remark_and_no_fields_become_none() -> None:
    command = decode_binary_header(encode_binary_header(Command(0, remark="", fields={})))
    assert command.remark is None
    assert command.fields is None


def test_an_empty_value_is_lost_as_in_java() -> None:
    command = decode_binary_header(encode_binary_header(Command(0, fields={"a": "", "b": "x", "": "y"})))
    assert command.fields == {"b": "x"}


def test_negative_codes_survive_and_pop_codes_do_not_fit() -> None:
    assert decode_binary_header(encode_binary_header(Command(-1004))).code == -1004
    assert fits_binary_header(310)
    assert not fits_binary_header(200050)


def test_an_unknown_language_byte_is_other() -> None:
    assert decode_binary_header(SAMPLE[:2] + b"\x7f" + SAMPLE[3:]).language == "OTHER"


@pytest.mark.parametrize("cut", range(len(SAMPLE)))
def test_every_truncation_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        decode_binary_header(SAMPLE[:cut])


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param((13, "7fffffff"), id="remark too long"),
        pytest.param((13, "ffffffff"), id="remark negative"),
        pytest.param((18, "7fffffff"), id="fields too long"),
        pytest.param((18, "80000000"), id="fields negative"),
        pytest.param((22, "7fff"), id="key too long"),
        pytest.param((22, "ffff"), id="key negative"),
        pytest.param((25, "7fffffff"), id="value too long"),
        pytest.param((25, "ffffffff"), id="value negative"),
        pytest.param((29, "ff"), id="value no UTF-8"),
    ],
)
def test_lying_lengths_are_refused(lie: tuple[int, str]) -> None:
    position, value = lie[0], bytes.fromhex(lie[1])
    with pytest.raises(ProtocolError):
        decode_binary_header(SAMPLE[:position] + value + SAMPLE[position + len(value) :])


def test_more_fields_than_allowed_are_refused() -> None:
    header = encode_binary_header(Command(1, fields={f"k{n}": "v" for n in range(11)}))
    assert len(decode_binary_header(header, 11).fields or {}) == 11
    with pytest.raises(ProtocolError, match="more than 10 fields"):
        decode_binary_header(header, 10)


def test_text_outside_ascii_is_utf8() -> None:
    command = decode_binary_header(encode_binary_header(Command(1, remark="grün", fields={"主题": "é"})))
    assert (command.remark, command.fields) == ("grün", {"主题": "é"})
