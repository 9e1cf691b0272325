from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from demo.check import TableFacts, compare
from demo.flights import Answers
from demo.log import LogFacts, log_facts
from rocketlake.base.crc32 import crc32
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_blank, encode_record

ANSWERS = Answers(3, Counter(AA=2, UA=1), 17)
LOG = LogFacts(3, 12345)
TABLE = TableFacts(rows=3, checksum=12345, positions=3, delay_minutes=17, tags_right=3)


def test_equal_witnesses_agree() -> None:
    assert all(finding.agrees for finding in compare(ANSWERS, LOG, TABLE, Counter(AA=2, UA=1)))


@pytest.mark.parametrize("name", ["rows", "checksum", "positions", "delay_minutes", "tags_right"])
def test_each_difference_of_the_table_is_found(name: str) -> None:
    other = replace(TABLE, **{name: getattr(TABLE, name) - 1})
    assert sum(not finding.agrees for finding in compare(ANSWERS, LOG, other, Counter(AA=2, UA=1))) == 1


@pytest.mark.parametrize("counted", [Counter(AA=2), Counter(AA=1, UA=2), Counter(AA=3, UA=1)])
def test_a_wrong_count_of_the_group_is_found(counted: Counter[str]) -> None:
    assert not compare(ANSWERS, LOG, TABLE, counted)[-1].agrees


def test_a_message_missing_in_the_log_is_found() -> None:
    assert not compare(ANSWERS, LogFacts(2, 12345), TABLE, Counter(AA=2, UA=1))[0].agrees


def test_the_log_on_disk_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    def record(topic: str, offset: int, body: bytes) -> bytes:
        host = encode_host("127.0.0.1", 1)
        made = encode_record(
            topic.encode(), body, property_text.encode({}), queue_id=5, flag=0, queue_offset=offset,
            physical_offset=0, sys_flag=0, born_ms=1, born_host=host, store_ms=2, store_host=host, reconsume_times=0,
            prepared_transaction_offset=0, body_crc=crc32(body),
        )  # fmt: skip
        return bytes(made)

    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    first = record("flights", 0, b"a") + record("other", 0, b"x")
    (folder / "00000000000000000000").write_bytes(first + encode_blank(100) + bytes(92))
    (folder / "00000000000000001000").write_bytes(record("flights", 1, b"b") + bytes(100))
    assert log_facts(tmp_path, "flights") == LogFacts(2, zlib.crc32(b"5:0a") + zlib.crc32(b"5:1b"))
