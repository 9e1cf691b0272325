"""The store on a real disk with its real worker threads: roll, reopen, group commit, a killed process."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rocketlake.base.errors import StoreError
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

SMALL = {
    "commit_log_file_bytes": 64 * 1024,
    "consume_queue_file_bytes": 2000,
    "index_slots": 100,
    "index_entries": 1000,
    "disk_warning_percent": 99,
    "disk_clean_forcibly_percent": 99,
    "clean_forcibly": False,
}


def config(**settings: object) -> StoreConfig:
    return StoreConfig(**{**SMALL, **settings})  # type: ignore[arg-type]


def message(body: bytes, queue_id: int = 0) -> PutMessage:
    return PutMessage("T", queue_id, body, b"KEYS\x01k\x02")


def bodies(store: MessageStore, queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while (answer := store.get("T", queue_id, len(found), 32, 1 << 20)).count:
        found += [message.body for message in decode_records(b"".join(answer.slices))]
    return found


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("pool", [False, True])
async def test_messages_over_many_files_are_there_after_a_reopen(tmp_path: Path, flush: str, pool: bool) -> None:
    settings = config(flush_disk_type=flush, write_pool_enabled=pool, write_pool_buffers=2)
    store = MessageStore(tmp_path, settings)
    await store.start()
    sent = [os.urandom(random.Random(number).randrange(2000)) for number in range(500)]
    for body in sent:
        assert store.put(message(body)).status is PutStatus.OK
    await store.stop()
    assert not (tmp_path / "abort").exists()
    assert len(list((tmp_path / "commitlog").iterdir())) >= 7
    store = MessageStore(tmp_path, settings)
    await store.start()
    assert bodies(store) == sent
    assert len(store.query("T", "k", 32, 0, 2**62).slices) == 32
    await store.stop()


async def test_many_senders_are_served_by_few_syncs_on_the_flush_thread(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, config(flush_disk_type="SYNC_FLUSH"))
    await store.start()
    told: list[PutStatus] = []
    all_told = asyncio.Event()

    def done(status: PutStatus) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append(status)
        if len(told) == 1000:
            all_told.set()

    for number in range(1000):
        store.when_durable(store.put(message(b"%d" % number)), wait=True, done=done)
        if number % 50 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await all_told.wait()
    assert set(told) == {PutStatus.OK}
    assert store.flushed_offset == store.max_physical_offset
    assert "store-flush" in {thread.name for thread in threading.enumerate()}
    await store.stop()
    assert not any(thread.name.startswith("store-") for thread in threading.enumerate())


async def test_a_folder_in_use_is_refused_with_its_lock_named(tmp_path: Path) -> None:
    first = MessageStore(tmp_path, config())
    await first.start()
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from rocketlake.store.config import StoreConfig\n"
        "from rocketlake.store.message_store import MessageStore\n"
        "asyncio.run(MessageStore(Path(sys.argv[1]), StoreConfig(commit_log_file_bytes=65536)).start())\n"
    )
    other = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert other.returncode != 0
    assert str(tmp_path / "lock") in other.stderr
    await first.stop()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

async def main():
    sizes = dict(commit_log_file_bytes=65536, consume_queue_file_bytes=2000, index_slots=100, index_entries=1000)
    store = MessageStore(Path(sys.argv[1]), StoreConfig(**sizes))
    await store.start()
    number = 0
    while True:
        result = store.put(PutMessage("T", number % 2, b"%06d" % number + bytes(500)))
        os.write(1, b"%06d\\n" % number)
        number += 1
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        if number % 10 == 0:
            await asyncio.sleep(0.0005)

asyncio.run(main())
"""


@pytest.mark.parametrize("count", [1, 117, 1203])
async def test_a_killed_process_loses_nothing_it_has_acknowledged(tmp_path: Path, count: int) -> None:
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(tmp_path), str(count)], capture_output=True, timeout=60
    )
    assert process.returncode == -9, process.stderr.decode()
    acknowledged = process.stdout.split()
    assert len(acknowledged) == count
    assert (tmp_path / "abort").exists()
    store = MessageStore(tmp_path, config())
    await store.start()
    for queue_id in (0, 1):
        assert [body[:6] for body in bodies(store, queue_id)] == acknowledged[queue_id::2]
    await store.stop()


async def test_held_bytes_outlive_the_files_of_a_stopped_store(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, config())
    await store.start()
    store.put(message(b"held"))
    held = store.get("T", 0, 0, 1, 1000).slices[0]
    await store.stop()
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    assert decode_record(held).body == b"held"


async def test_a_store_that_cannot_start_leaves_no_lock_behind(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"short")
    with pytest.raises(StoreError, match="checkpoint"):
        await MessageStore(tmp_path, config()).start()
    (tmp_path / "checkpoint").unlink()
    store = MessageStore(tmp_path, config())
    await store.start()
    await store.stop()
