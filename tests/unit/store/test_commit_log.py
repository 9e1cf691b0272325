from __future__ import annotations

import errno
import struct

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, encode_blank
from rocketlake.store.commit_log import AppendFailed, CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutStatus
from tests.unit.store.store_world import ROOT, message

FILE = 1000


def new_log(files: FaultyFiles | MemoryFiles | None = None, **settings: object) -> CommitLog:
    config = StoreConfig(commit_log_file_bytes=FILE, **settings)  # type: ignore[arg-type]
    return CommitLog(ROOT / "commitlog", config, files or MemoryFiles(), InlineWorker())


def test_records_lie_one_after_the_other_and_know_their_place() -> None:
    log = new_log()
    first, size = log.append(message(b"one"), 0, 111)
    second, _ = log.append(message(b"two"), 1, 222)
    assert (first, second) == (0, size)
    record = log.record(second)
    assert record is not None
    decoded = decode_record(record)
    assert (decoded.body, decoded.queue_offset, decoded.physical_offset, decoded.store_ms) == (b"two", 1, second, 222)
    assert log.store_ms_at(second) == 222


def test_a_record_that_does_not_fit_with_a_blank_behind_it_goes_to_the_next_file() -> None:
    log = new_log()
    _, size = log.append(message(b"x" * 500), 0, 1)
    overhead = size - 500
    room = FILE - size
    log.append(message(b"y" * (room - overhead - 8)), 1, 1)  # exactly 8 bytes stay free
    assert log.max_offset == FILE - 8
    offset, _ = log.append(message(b"z"), 2, 1)
    assert offset == FILE
    assert bytes(log.view(FILE - 8, 8) or b"") == encode_blank(8)


def test_the_blank_says_how_much_is_left() -> None:
    log = new_log()
    _, size = log.append(message(b"x" * 500), 0, 1)
    log.append(message(b"y" * 500), 1, 1)
    blank = log.view(size, 8)
    assert blank is not None
    assert struct.unpack(">iI", blank) == (FILE - size, 0xCBD43194)


def test_a_record_larger_than_a_file_is_illegal_and_closes_no_file() -> None:
    log = new_log()
    with pytest.raises(AppendFailed, match="a commit log file 1000") as failed:
        log.append(message(b"x" * FILE), 0, 1)
    assert failed.value.status is PutStatus.MESSAGE_ILLEGAL
    assert log.max_offset == 0


def test_a_batch_lies_in_one_file_and_is_written_at_once() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    log.append(message(b"x" * 800), 0, 1)
    files.plan.calls.clear()
    offsets, size = log.append_batch(message(), [(7, b"a", b""), (8, b"bb", b"KEYS\x01k\x02")], 5, 1)
    assert offsets[0] == FILE
    assert log.max_offset == FILE + size
    assert [call for call, _path in files.plan.calls if call == "pwrite"] == [
        "pwrite",
        "pwrite",
    ]  # the blank, the batch
    records = [decode_record(log.record(offset) or b"") for offset in offsets]
    assert [(r.queue_offset, r.flag, r.body, r.keys) for r in records] == [(5, 7, b"a", None), (6, 8, b"bb", "k")]


def test_the_next_file_is_made_ahead() -> None:
    files = MemoryFiles()
    new_log(files).append(message(), 0, 1)
    assert files.list_dir(ROOT / "commitlog") == [f"{0:020d}", f"{FILE:020d}"]


def test_ipv6_hosts_set_their_flags() -> None:
    log = new_log()
    host = encode_host("fe80::1", 9)
    offset, _ = log.append(message(born_host=host, store_host=host), 0, 123_456)
    decoded = decode_record(log.record(offset) or b"")
    assert decoded.born_host == ("fe80::1", 9)
    assert log.store_ms_at(offset) == 123_456


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errno.ENOSPC, PutStatus.DISK_FULL),
        (errno.EDQUOT, PutStatus.DISK_FULL),
        (errno.EIO, PutStatus.SERVICE_NOT_AVAILABLE),
    ],
)
@pytest.mark.parametrize("kept", [0, 1, 4, 20, 100])
def test_a_write_that_fails_leaves_no_half_record(error: int, status: PutStatus, kept: int) -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    end = sum(log.append(message(b"good"), 0, 1))
    files.plan.add(Fault("pwrite", error=error, keep_bytes=kept, times=1))
    with pytest.raises(AppendFailed, match="write failed") as failed:
        log.append(message(b"x" * 200), 1, 1)
    assert failed.value.status is status
    assert log.max_offset == end
    last = log.list.last
    assert last is not None
    assert not any(last.view[end:])
    assert log.append(message(b"next"), 1, 1)[0] == end


def test_a_full_disk_is_named_with_its_free_bytes_and_the_cure() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    log.append(message(), 0, 1)
    files.plan.add(Fault("pwrite", error=errno.ENOSPC))
    files.plan.free_bytes = 17
    with pytest.raises(AppendFailed, match=r"17 bytes free .*/store/commitlog/0+ at \d+.*diskMaxUsedSpaceRatio"):
        log.append(message(), 1, 1)


def test_a_blank_that_cannot_be_written_is_tried_again() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    _, size = log.append(message(b"x" * 600), 0, 1)
    files.plan.add(Fault("pwrite", error=errno.ENOSPC, keep_bytes=4, times=1))
    with pytest.raises(AppendFailed):
        log.append(message(b"y" * 600), 1, 1)
    assert log.max_offset == size
    assert log.append(message(b"y" * 600), 1, 1)[0] == FILE


def test_a_file_that_cannot_be_made_is_an_answer_and_tried_again() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    files.plan.add(Fault("open", times=1, error=errno.EMFILE))
    with pytest.raises(AppendFailed, match="cannot make the next commit log file") as failed:
        log.append(message(), 0, 1)
    assert failed.value.status is PutStatus.CREATE_FILE_FAILED
    assert log.append(message(), 0, 1)[0] == 0


def test_after_a_torn_write_that_cannot_be_erased_nothing_is_appended() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files)
    log.append(message(), 0, 1)
    files.plan.add(Fault("pwrite", keep_bytes=50)).add(Fault("truncate"))
    with pytest.raises(AppendFailed, match="cannot erase"):
        log.append(message(), 1, 1)
    files.plan.clear()
    with pytest.raises(AppendFailed, match="cannot erase") as failed:
        log.append(message(), 1, 1)
    assert failed.value.status is PutStatus.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("offset", [-5, 1, 20, 91, 5000, 2**62])
def test_an_offset_at_which_no_record_starts_reads_nothing(offset: int) -> None:
    log = new_log()
    log.append(message(b"\0" * 200), 0, 1)
    assert log.record(offset) is None


def test_a_record_copied_into_a_body_is_not_found_there() -> None:
    log = new_log()
    log.append(message(b"inner"), 0, 1)
    inner = bytes(log.record(0) or b"")
    offset, size = log.append(message(inner), 1, 1)
    position = bytes(log.view(offset, size) or b"").index(inner)
    assert log.record(offset + position) is None


def test_buffered_records_are_readable_after_the_commit_and_buffers_go_round() -> None:
    log = new_log(write_pool_enabled=True, write_pool_buffers=2)
    assert log.pool is not None
    offset, _ = log.append(message(b"one"), 0, 1)
    assert log.record(offset) is None
    assert log.commit()
    assert log.record(offset) is not None
    for number in range(1, 40):
        log.append(message(b"x" * 300), number, 1)
        log.commit()
    assert log.pool.free == 1
    assert log.max_offset == log.list.wrote_offset


def test_when_all_buffers_are_full_they_are_committed_to_have_one_for_the_next_file() -> None:
    log = new_log(write_pool_enabled=True, write_pool_buffers=1)
    first, _ = log.append(message(b"x" * 600), 0, 1)
    second, _ = log.append(message(b"y" * 600), 1, 1)
    assert log.record(first) is not None
    assert log.record(second) is None
    assert log.max_offset == second


def test_buffers_that_cannot_be_committed_refuse_the_next_file_until_they_can() -> None:
    files = FaultyFiles(MemoryFiles())
    log = new_log(files, write_pool_enabled=True, write_pool_buffers=1)
    log.append(message(b"x" * 600), 0, 1)
    files.plan.add(Fault("pwrite", error=errno.ENOSPC, times=1))
    with pytest.raises(AppendFailed, match="write failed"):
        log.append(message(b"y" * 600), 1, 1)
    offset, _ = log.append(message(b"y" * 600), 1, 1)
    log.commit()
    assert [decode_record(log.record(at) or b"").queue_offset for at in (0, offset)] == [0, 1]
