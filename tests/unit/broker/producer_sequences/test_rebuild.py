from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.files import MemoryFiles
from rocketlake.broker.producer_sequences import rebuild
from rocketlake.broker.producer_sequences.mark import parse_mark
from rocketlake.broker.producer_sequences.rebuild import recover_sequences
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.codec.record import encode_blank, encode_record


def record(queue_offset: int, mark: str | None, *, topic: bytes = b"T", queue_id: int = 0, body: bytes = b"x") -> bytes:
    properties = b"" if mark is None else f"KEYS\x01k\x02__RL_SEQ\x01{mark}\x02CLUSTER\x01c\x02".encode()
    return encode_record(
        topic, body, properties, queue_id=queue_id, flag=0, queue_offset=queue_offset, physical_offset=0, sys_flag=0,
        born_ms=0, born_host=bytes(8), store_ms=5, store_host=bytes(8), reconsume_times=0,
        prepared_transaction_offset=0, body_crc=0,
    )  # fmt: skip


def batch(first_offset: int, count: int, mark: str, **options: int) -> bytes:
    return b"".join(record(first_offset + number, mark, **options) for number in range(count))


@pytest.fixture
def table() -> ProducerSequences:
    return ProducerSequences(
        Path("/f"), MemoryFiles(), ManualClock(), lambda: LogEnds(0, 0), producers_max=100, keep_ms=1000
    )


def known(table: ProducerSequences, mark: str, queue_id: int = 0) -> int:
    return table.known("T", queue_id, parse_mark(mark), 1000)


def test_a_records_number_follows_from_its_place_in_its_batch(table: ProducerSequences) -> None:
    log = batch(70, 3, "q/0/0/0/l") + record(73, None) + batch(0, 2, "q/0/0/0/l", queue_id=1)
    log += batch(74, 4, "q/0/0/3/l") + batch(78, 2, "q/0/1/0/l")
    assert recover_sequences(table, [(0, memoryview(log))]) == 11
    assert [known(table, "q/0/0/0/l"), known(table, "q/0/0/0/l", 1), known(table, "q/0/1/0/l")] == [7, 2, 2]


def test_of_a_batch_that_lost_its_end_what_is_there_counts(table: ProducerSequences) -> None:
    log = batch(0, 10, "q/3/0/0/l")
    torn = log[: len(log) // 10 * 6 + 20]
    recover_sequences(table, [(0, memoryview(torn + bytes(500)))])
    assert known(table, "q/3/0/0/l") == 6


def test_files_end_in_a_blank_record_and_long_records_are_read(
    table: ProducerSequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "_CHUNK", 256)
    first = batch(0, 5, "q/0/0/0/l") + encode_blank(300)
    second = record(5, "q/0/0/5/l", body=bytes(3000)) + record(6, None) + batch(7, 30, "q/0/0/6/l")
    recover_sequences(table, [(0, memoryview(first)), (len(first), memoryview(second))])
    assert known(table, "q/0/0/0/l") == 36


def test_marks_in_bodies_and_marks_of_another_make_are_passed_over(table: ProducerSequences) -> None:
    log = record(0, None, body=b"__RL_SEQ\x01q/0/0/0/l\x02") + record(1, "what is this") + record(2, "q/0/0/0/l")
    assert recover_sequences(table, [(0, memoryview(log))]) == 1
    assert known(table, "q/0/0/0/l") == 1
