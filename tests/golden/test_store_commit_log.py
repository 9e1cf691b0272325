"""A commit log written by us from Apache's messages is Apache's own log, byte for byte."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, record_size
from rocketlake.model.message import StoredMessage
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.results import PutMessage

GOLDEN = Path(__file__).parent / "stores" / "apache-5.3.3-clean"
FILE_SIZE = int(json.loads((GOLDEN / "about.json").read_text())["settings"]["mappedFileSizeCommitLog"])
CONFIG = StoreConfig(commit_log_file_bytes=FILE_SIZE)


def apache_log() -> CommitLog:
    log = CommitLog(GOLDEN / "commitlog", CONFIG, ReadOnly(), InlineWorker())
    log.list.load()
    return log


class ReadOnly(PosixFiles):
    """The recorded files must stay as they are."""

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = True):  # type: ignore[no-untyped-def]
        return super().open(path, size=size, read_only=True)


def apache_records(log: CommitLog) -> Iterator[tuple[int, bytes]]:
    """(physical offset, record) of all records."""
    offset = 0
    while offset < log.list.files[-1].end:
        record = log.record(offset)
        if record is None:  # a blank, or the end
            offset = log.next_file_start(offset)
        else:
            yield offset, bytes(record)
            offset += len(record)


def taken_apart(record: bytes) -> tuple[StoredMessage, PutMessage]:
    """A message, and the same as it was put; the property text is the record's own."""
    message = decode_record(record, decompress=False)
    born_host, store_host = encode_host(*message.born_host), encode_host(*message.store_host)
    properties_at = record_size(len(message.topic), len(message.body), 0, len(born_host), len(store_host))
    put = PutMessage(
        message.topic,
        message.queue_id,
        message.body,
        record[properties_at:],
        message.flag,
        message.sys_flag,
        message.born_ms,
        born_host,
        store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )
    return message, put


def batch_key(put: PutMessage) -> bytes:
    """What the messages of one client batch have in common: the batch's own unique key, behind the message's."""
    keys = put.properties.split(b"UNIQ_KEY\x01")[1:]
    return keys[1] if len(keys) == 2 else b""


def test_every_file_is_the_same() -> None:
    ours = CommitLog(Path("/commitlog"), CONFIG, MemoryFiles(), InlineWorker())
    taken = [(offset, *taken_apart(record)) for offset, record in apache_records(apache_log())]
    assert len(taken) > 700
    batches = 0
    for key, group in itertools.groupby(taken, lambda row: batch_key(row[2]) or row[0]):
        rows = list(group)
        offset, message, put = rows[0]
        if isinstance(key, int):
            assert ours.append(put, message.queue_offset, message.store_ms)[0] == offset
        else:
            batches += 1
            items = [(row[1].flag, row[1].body, row[2].properties) for row in rows]
            offsets, _ = ours.append_batch(put, items, message.queue_offset, message.store_ms)
            assert offsets == [row[0] for row in rows]
    assert batches > 1
    recorded = OffsetFiles(GOLDEN / "commitlog", PosixFiles())
    assert len(ours.list.files) > 3
    for mapped in ours.list.files:
        assert mapped.file.pread(mapped.size, 0) == recorded.path(mapped.start).read_bytes(), mapped.path
