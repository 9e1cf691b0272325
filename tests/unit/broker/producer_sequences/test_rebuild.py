from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RemoteError
from rocketlake.broker.producer_sequences import rebuild
from rocketlake.broker.producer_sequences.rebuild import Count, recover_sequences
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.codec.record import encode_blank, encode_record
from rocketlake.codec.record_batch import encode_batch
from rocketlake.codec.sequence_mark import parse_mark
from rocketlake.model.message import Message


def record(
    queue_offset: int,
    mark: str | None,
    *,
    topic: bytes = b"T",
    queue_id: int = 0,
    body: bytes = b"x",
    store_ms: int = 5,
) -> bytes:
    properties = b"" if mark is None else f"KEYS\x01k\x02__RL_SEQ\x01{mark}\x02CLUSTER\x01c\x02".encode()
    return encode_record(
        topic, body, properties, queue_id=queue_id, flag=0, queue_offset=queue_offset, physical_offset=0, sys_flag=0,
        born_ms=0, born_host=bytes(8), store_ms=store_ms, store_host=bytes(8), reconsume_times=0,
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
    return table.known("T", queue_id, parse_mark(mark), 1000, lambda _count: None)


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
    noted: list[int] = []
    recover_sequences(table, [(0, memoryview(first)), (len(first), memoryview(second))], None, noted.append)
    assert noted[0] == 0 and noted[-1] >= len(first)  # for the line that says how far the start is
    assert known(table, "q/0/0/0/l") == 36


def test_marks_in_bodies_and_marks_of_another_make_are_passed_over(table: ProducerSequences) -> None:
    log = record(0, None, body=b"__RL_SEQ\x01q/0/0/0/l\x02") + record(1, "what is this") + record(2, "q/0/0/0/l")
    assert recover_sequences(table, [(0, memoryview(log))]) == 1
    assert known(table, "q/0/0/0/l") == 1


# -- digests and batches that lie twice --------------------------------------------------------------------------------

BODIES = [b"row %d" % number for number in range(9)]


def digest(count: int) -> int:
    """Of the first rows, as the sink makes it."""
    return crc32(encode_batch(Message("T", body, keys="k") for body in BODIES[:count]))


def stored(first: int, count: int, *, at: int, store_ms: int = 5) -> bytes:
    """The records of a request with these rows."""
    mark = f"q/0/0/{first}/l/{count}/{digest(first):08x}/{digest(first + count):08x}"
    return b"".join(record(at + row, mark, body=BODIES[first + row], store_ms=store_ms) for row in range(count))


def reached(table: ProducerSequences) -> int:
    return table.next_number("T", 0, parse_mark("q/0/0/0/l"))


def expects(table: ProducerSequences, count: int) -> None:
    """The table says that these rows are stored, and compares."""
    assert reached(table) == count
    whole = parse_mark(f"q/0/0/0/l/9/00000000/{digest(9):08x}")
    assert table.known("T", 0, whole, 9, digest) == count
    with pytest.raises(RemoteError, match="was written before with other rows"):
        table.known("T", 0, whole, 9, lambda _count: 12345)


def test_digests_are_those_of_the_marks(table: ProducerSequences) -> None:
    recover_sequences(table, [(0, memoryview(stored(0, 4, at=10) + stored(4, 3, at=14)))])
    expects(table, 7)


@pytest.mark.parametrize("left", range(1, 5))
def test_of_a_batch_that_lost_its_end_the_digest_is_made_from_what_is_there(
    table: ProducerSequences, left: int
) -> None:
    log = stored(0, 4, at=10) + stored(4, 5, at=14)
    torn = log[: len(log) // 9 * (4 + left) + 20]
    recover_sequences(table, [(0, memoryview(torn))])
    expects(table, 4 + left)


def test_a_batch_that_lies_twice_counts_once(table: ProducerSequences) -> None:
    """Its producer was forgotten between (producerSequencesMax), or its topic was deleted without a note."""
    recover_sequences(table, [(0, memoryview(stored(0, 5, at=10) + stored(0, 5, at=15)))])
    expects(table, 5)


def test_a_batch_that_lies_twice_and_lost_its_end_both_times_counts_once(table: ProducerSequences) -> None:
    whole = stored(0, 5, at=10)
    again = stored(0, 5, at=13, store_ms=6)
    size = len(whole) // 5
    recover_sequences(table, [(0, memoryview(whole[: 3 * size] + again[: 1 * size]))])
    expects(table, 3)


def test_an_old_mark_that_lies_twice_is_told_by_its_store_time(table: ProducerSequences) -> None:
    log = batch(10, 5, "q/0/0/0/l") + batch(15, 5, "q/0/0/0/l", store_ms=6)
    recover_sequences(table, [(0, memoryview(log))])
    assert reached(table) == 5


def test_what_lies_before_the_deletion_of_its_topic_is_not_counted(table: ProducerSequences) -> None:
    old, new = stored(0, 6, at=0), stored(0, 2, at=0)
    log = memoryview(old + new)
    assert recover_sequences(table, [(1000, log)], {"T": 1000 + len(old), "U": 10**9}) == 2
    expects(table, 2)


def test_the_table_is_touched_when_all_is_counted(table: ProducerSequences, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be saved meanwhile, and the file must not count behind the place that it says."""
    monkeypatch.setattr(rebuild, "_CHUNK", 256)
    count, log = Count(), batch(0, 30, "q/0/0/0/l")
    assert [len(table) for _position in count.steps([(0, memoryview(log))])].count(0) > 10
    assert (count.into(table), known(table, "q/0/0/0/l")) == (30, 30)
