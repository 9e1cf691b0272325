"""The store that the scan's load is measured on is one a broker could have written."""

from __future__ import annotations

from pathlib import Path

from bench.spark_loads.store_files import QUEUES, TOPIC, write_store
from rocketlake.codec.record import decode_record
from rocketlake.store.audit import audit_store
from rocketlake.store.reader import StoreReader


def test_it_is_a_sound_store_of_so_many_messages(tmp_path: Path) -> None:
    used = write_store(tmp_path, body_bytes=100, rows=1000, file_bytes=65536)
    assert audit_store(tmp_path, with_index=False) == []
    reader = StoreReader(tmp_path)
    assert sum(entry.size for entry in reader.scan_log()) == used
    assert [reader.queue_range(TOPIC, queue) for queue in range(QUEUES)] == [(0, 250)] * 4
    last = decode_record(next(iter(reader.records(TOPIC, 3, 249, 250))))
    assert (last.properties["KEYS"], last.unique_key, len(last.body)) == (
        "k00000999", "0A0000010000002A9F00000999", 100,
    )  # fmt: skip
