from __future__ import annotations

import pytest

from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_record import RecordTest
from tests.parity.test_record_parts import record

FEW = "a = 'x' AND b > 5"
MANY = "a = 'x' AND b > 5 AND c IS NULL AND d IS NULL"


@pytest.mark.parametrize("text", [FEW, MANY])
@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        (b"a\x01x\x02b\x017\x02", True),
        (b"b\x017\x02a\x01x", True),
        (b"a\x01x\x02b\x017\x02b\x013\x02", False),
        (b"a\x01x\x02", False),
        (b"a\x01x\x02b\x01seven\x02", False),
        (b"", False),
        (b"\xff\x01\xfe\x02a\x01x\x02b\x017\x02", True),
    ],
)
def test_the_properties_in_a_record_decide(text: str, properties: bytes, wanted: bool) -> None:
    assert RecordTest(parse_sql92(text)).matches(memoryview(record(properties=properties))) is wanted


def test_bytes_that_are_no_utf8_are_read_as_java_reads_them() -> None:
    expression = parse_sql92("a = '\ufffd'")
    assert RecordTest(expression).matches(memoryview(record(properties=b"a\x01\xff\x02")))


def test_a_record_whose_lengths_lie_has_no_properties() -> None:
    damaged = bytearray(record(properties=b"a\x01x\x02"))
    damaged[-6] = 0xFF
    assert not RecordTest(parse_sql92("a = 'x'")).matches(memoryview(damaged))
    assert RecordTest(parse_sql92("a IS NULL")).matches(memoryview(damaged))
