"""The kernel that takes apart what a master sends, against dispatch_scan and EntryRun."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.crc32 import crc32
from rocketlake.codec.record import encode_blank, encode_record
from rocketlake.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.entry_run import EntryRun
from rocketlake.store.raw_scan import scan_raw

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.store.raw_run import OTHER, RawRun, scan_run

GOLDEN = sorted((Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean/commitlog").iterdir())
DELAYS_MS = (1000, 5000, 10_000)
TOPICS = ("T", "Orders", "SCHEDULE_TOPIC_XXXX", "x" * 127)
PROPERTIES = (
    b"",
    b"TAGS\x01red\x02KEYS\x01a b  c \x02UNIQ_KEY\x010A0B\x02",
    b"UNIQ_KEY\x0177\x02DELAY\x012\x02",
    b"DELAY\x0199\x02TAGS\x01late",
    b"DELAY\x010\x02TAGS\x01late",
    b"DELAY\x01" + b"9" * 50,
    b"DELAY\x01\xd9\xa1\x02TAGS\x01A",
    b"TAGS\x01A\x02TAGS\x01\x02\x01\x02\x02KEYS\x01one\x02KEYS\x01two",
    b"name\x01" + "größe".encode() + b"\x02TAGS\x01a\x01b\x02",
    b"TAGS\x01\xd0\xba\x02",
    b"KEYS\x01\xff\x02",
    b"XTAGS\x01no\x02tags\x01no\x02TAGS",
    b"KEYS\x01 \x02",
)


class Queue:
    """As much of a consume queue as a run asks for."""

    def __init__(self, topic: str, queue_id: int) -> None:
        self.topic, self.queue_id, self.next_offset = topic, queue_id, 7


def log_of(chance: random.Random, base: int, count: int) -> bytes:
    """Records of many kinds, back to back from physical offset `base` on."""
    data = bytearray()
    nexts: dict[tuple[str, int], int] = {}
    store_ms = 1_700_000_000_000
    for _ in range(count):
        topic, queue_id = chance.choice(TOPICS), chance.randrange(3)
        number = nexts.get((topic, queue_id), 0) + (5 if chance.random() < 0.05 else 0)
        nexts[topic, queue_id] = number + 1
        store_ms += chance.choice((0, 0, 0, 1, 2000))
        hosts = chance.choice((0, 0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6))
        body = chance.randbytes(chance.randrange(40))
        data += encode_record(
            ("ä" if chance.random() < 0.05 else topic).encode(),
            body,
            chance.choice(PROPERTIES),
            queue_id=queue_id,
            flag=0,
            queue_offset=number,
            physical_offset=base + len(data),
            sys_flag=chance.randrange(256) & TRANSACTION_MASK | hosts if chance.random() < 0.3 else hosts,
            born_ms=5,
            born_host=bytes(20 if hosts & BORN_HOST_V6 else 8),
            store_ms=store_ms,
            store_host=bytes(20 if hosts & STORE_HOST_V6 else 8),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body_crc=crc32(body),
        )
    return bytes(data)


def seen(run: Any) -> dict[str, Any]:
    """All that dispatch takes of a run."""
    queues: dict[tuple[str, int], Queue] = {}
    run.find_queues(lambda topic, queue_id: queues.setdefault((topic, queue_id), Queue(topic, queue_id)))
    keys = [(list(pairs), store_ms) for pairs, store_ms in run.key_stretches() if len(pairs)]
    return {
        "place": (run.physical_offset, run.size, run.store_ms, len(run)),
        "entries": [(each[0].topic, each[0].queue_id, *each[1:]) for each in run.entries()],
        "keys": keys,
        "next": {name: queue.next_offset for name, queue in queues.items()},
        "arrivals": [run.arrivals(*name) for name in queues] + [run.arrivals("no", 0)],
    }


def compare(data: bytes, base: int, *, check_crc: bool = True, delays_ms: Any = DELAYS_MS) -> tuple[int, int]:
    """The kernel finds what the scan finds, up to where it stops; returns (bytes taken, status)."""
    run, taken, status = scan_run(data, base, check_crc, delays_ms)  # type: ignore[arg-type]
    entries, wanted, why = scan(memoryview(data)[: taken if status == OTHER else None], base, check_crc, delays_ms)  # type: ignore[arg-type]
    assert taken == wanted
    assert status in (why, OTHER)
    if entries:
        assert seen(run) == seen(EntryRun(entries))
    else:
        assert len(run) == run.size == 0
    return taken, status


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_recorded_logs(path: Path) -> None:
    taken, status = compare(path.read_bytes(), int(path.name))
    assert taken > 500 and status != OTHER


def test_records_of_all_kinds() -> None:
    chance, stops = random.Random(3), 0
    for seed in range(60):
        base = chance.choice((0, 4096, 2**40))
        data = log_of(random.Random(seed), base, 30)
        position = 0
        while True:  # behind each record that the kernel leaves out it goes on
            taken, status = compare(data[position:], base + position, delays_ms=chance.choice((DELAYS_MS, (), [9])))
            position += taken
            if status != OTHER:
                break
            stops += 1
            position += int.from_bytes(data[position : position + 4], "big")
        assert position == len(data)
        runs, taken, _status = scan_raw(memoryview(data), base, True, DELAYS_MS)  # type: ignore[arg-type]
        assert taken == len(data) == sum(run.size for run in runs)
        assert sum(map(len, runs)) == 30
    assert stops > 50


def test_each_cut_and_each_damage() -> None:
    data = log_of(random.Random(5), 0, 6) + encode_blank(4000)
    for end in range(len(data)):
        compare(data[:end], 0)
    chance = random.Random(6)
    for position in range(len(data)):
        bad = bytearray(data)
        width = chance.choice((1, 2, 4, 8))
        bad[position : position + width] = chance.choice((bytes(width), b"\xff" * width, chance.randbytes(width)))
        compare(bytes(bad[: len(data)]), 0, check_crc=chance.random() < 0.7)
    for _ in range(300):
        compare(chance.randbytes(chance.randrange(300)), chance.choice((0, 2**62)))


def test_a_run_that_was_not_filled_is_empty() -> None:
    run = RawRun()
    run.find_queues(Queue)
    assert (len(run), run.entries(), run.key_stretches(), run.arrivals("T", 0)) == (0, [], [], [])
