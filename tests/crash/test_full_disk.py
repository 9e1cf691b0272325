"""A broker on a disk without a free byte: it starts, is read, says why it takes nothing, goes on when there is room.

The disk is a small tmpfs, where a look at a hole of a mapped file takes a page too: a process that does it when there
is none left is killed. A user who may not mount one skips these; tests/unit/store/test_full_disk.py needs no mount.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.audit import audit_store
from tests.crash.broker_process import BrokerProcess, Ledger, Load, Reader
from tests.crash.light_load import SAVES_OFTEN, LightLoad
from tests.crash.lite_popping import LitePopping
from tests.crash.popping import INVISIBLE_MS, Popping
from tests.pops import PopClient
from tests.seeds import drawn

SLOTS, ENTRIES = 400_000, 200_000  # many pages of a key index file are holes
pytestmark = pytest.mark.crash


class SmallDisk:
    """A tmpfs, and the rest of it taken by a stranger's file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, room: int = 0) -> None:
        """Leave so many bytes, and else not one page."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(self._ballast, self._ballast.stat().st_size - room)

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "rocketlake-test", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def broker_on(small_disk: SmallDisk, tmp_path: Path, **settings: object) -> BrokerProcess:
    return BrokerProcess(
        tmp_path / "broker",
        storePathRootDir=small_disk.folder / "store",
        mappedFileSizeCommitLog=1 << 20,
        maxHashSlotNum=SLOTS,
        maxIndexNum=ENTRIES,
        cleanResourceInterval=200,
        **settings,
    )


async def loaded(ledger: Ledger, count: int) -> None:
    for _ in range(6000):
        if len(ledger.acked) >= count:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"{len(ledger.acked)} of {count} messages were taken in a minute")


async def load_until_refused(broker: BrokerProcess, ledger: Ledger, name: str) -> None:
    ledger.refused.clear()
    await asyncio.wait_for(Load(broker.address, ledger).run(8, name), 300)


async def wait_until_taken(broker: BrokerProcess, ledger: Ledger, name: str) -> None:
    """Send one message again and again until it is taken."""
    net = NetClient(clock=SystemClock())
    load = Load(broker.address, ledger)
    try:
        for number in range(600):
            answer = await net.invoke(broker.address, load._command(f"{name}-{number}", 0), 8000)
            ledger.tried.add(f"{name}-{number}")
            if answer.code == ResponseCode.SUCCESS:
                return
            await asyncio.sleep(0.05)
        pytest.fail(f"still refused: {answer.remark}")
    finally:
        await net.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_broker_starts_on_a_full_disk_and_goes_on_when_there_is_room(
    flush: str, small_disk: SmallDisk, tmp_path: Path
) -> None:
    # Files go neither for their age nor for the disk's sake: all that was acknowledged must be there in the end.
    broker = broker_on(small_disk, tmp_path, flushDiskType=flush, cleanFileForciblyEnable="false")
    ledger = Ledger()
    broker.start()
    load = asyncio.create_task(Load(broker.address, ledger).run(8, "before"))
    await loaded(ledger, 1000)
    small_disk.fill()
    await asyncio.wait_for(load, 60)  # the senders were refused
    assert set(ledger.refused) == {ResponseCode.SERVICE_NOT_AVAILABLE}
    for number in range(2):
        broker.kill()
        small_disk.fill()  # what a start gives back is taken by others
        broker.start()
        reader = Reader(broker.address, ledger)
        await reader.read_new()
        assert len(reader.found) > len(ledger.acked) // 2, "old messages can be read"
        await load_until_refused(broker, ledger, f"full-{number}")
        assert set(ledger.refused) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert "disk full" in ledger.refused[ResponseCode.SERVICE_NOT_AVAILABLE]
    log = (tmp_path / "broker" / "broker.log").read_text()
    assert "health is red: store/writes: disk full" in log, log
    small_disk.free()
    await wait_until_taken(broker, ledger, "after")
    reader = Reader(broker.address, ledger)
    await reader.read_new()
    assert reader.lost() == []
    assert broker.stop() == 0
    assert audit_store(broker.store, index_slots=SLOTS, index_entries=ENTRIES) == []


async def test_a_broker_that_starts_on_a_full_disk_makes_room_by_itself(small_disk: SmallDisk, tmp_path: Path) -> None:
    """A full disk costs the oldest files, whatever their age (cleanFileForciblyEnable, on by default)."""
    broker = broker_on(small_disk, tmp_path, cleanFileForciblyEnable="false")
    ledger = Ledger()
    broker.start()
    await load_until_refused(broker, ledger, "before")  # its own log fills the disk
    broker.kill()
    small_disk.fill()
    log = small_disk.folder / "store" / "commitlog"
    oldest, newest = min(log.iterdir()), max(log.iterdir())
    broker = broker_on(small_disk, tmp_path)
    broker.start()
    await wait_until_taken(broker, ledger, "after")
    assert not oldest.exists()
    assert newest.exists()
    assert broker.stop() == 0
    assert audit_store(broker.store, index_slots=SLOTS, index_entries=ENTRIES) == []


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_popped_messages_outlast_a_full_disk(flush: str, small_disk: SmallDisk, tmp_path: Path) -> None:
    """None is lost, and none that was acknowledged in time comes again, however often the disk is full."""
    (seed,) = drawn("pops on a full disk", 1)
    moments = random.Random(seed)
    broker = broker_on(
        small_disk, tmp_path, flushDiskType=flush, cleanFileForciblyEnable="false", reviveInterval=100, brokerName="b"
    )
    broker.start()
    client = PopClient(broker.address)
    load = Popping(client, moments, works_for=0.5)
    takers: list[asyncio.Task[None]] = []
    for number in range(3):
        sender = asyncio.create_task(load.send(f"s{number}"))
        if not takers:
            while not load.sent:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            takers = [asyncio.create_task(load.take()) for _ in range(16)]
        await asyncio.sleep(moments.uniform(0.3, 1.5))
        small_disk.fill()
        await asyncio.sleep(moments.uniform(0.3, 2 * INVISIBLE_MS / 1000))
        sender.cancel()
        small_disk.free()
    try:
        async with asyncio.timeout(60):
            while load.open and not any(taker.done() for taker in takers):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"seed {seed}: {len(load.open)} of {len(load.sent)} are lost: {sorted(load.open)[:20]}")
    for taker in takers:
        taker.cancel()
    ended = await asyncio.gather(*takers, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
    await client.net.close()
    assert broker.stop() == 0
    assert load.again == [], f"seed {seed}"
    assert load.refused, "something was popped before the disk was full, and acknowledged then"
    assert audit_store(broker.store, index_slots=SLOTS, index_entries=ENTRIES) == []


async def test_lite_messages_outlast_a_full_disk(small_disk: SmallDisk, tmp_path: Path) -> None:
    """None is lost, comes again or to two clients, in each kind of group, however often the disk is full."""
    (seed,) = drawn("lite topics on a full disk", 1)
    moments = random.Random(seed)
    broker = broker_on(
        small_disk, tmp_path, flushDiskType="SYNC_FLUSH", cleanFileForciblyEnable="false", brokerName="b"
    )
    broker.start()
    load = LitePopping(moments)
    await load.begin(broker.address)
    tasks = load.tasks()
    for _ in range(3):
        await asyncio.sleep(moments.uniform(0.3, 1.5))
        small_disk.fill()
        await asyncio.sleep(moments.uniform(0.3, 2))
        small_disk.free()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), (seed, ended)
    await load.take_all()
    await load.end(monotonic())
    assert broker.stop() == 0
    load.check(least=20)
    assert load.refused, f"seed {seed}: the disk was full"
    assert audit_store(broker.store, index_slots=SLOTS, index_entries=ENTRIES) == []


async def test_light_queues_are_known_without_room_for_their_file(small_disk: SmallDisk, tmp_path: Path) -> None:
    """The file stays as it was, what is written of the next one is given back, and health says so."""
    broker = broker_on(small_disk, tmp_path, cleanFileForciblyEnable="false", messageIndexEnable="false")
    load = LightLoad(broker.address, 4000, random.Random(*drawn("light queues on a full disk", 1)))
    file, half = (broker.store / "config" / name for name in ("lightQueues", "lightQueues.tmp"))
    broker.prefix = SAVES_OFTEN
    broker.start()
    await load.make_parent()
    await load.send_to_each()
    assert broker.stop() == 0
    saved = file.read_bytes()
    broker.prefix = []
    broker.start()
    await load.send_to_each()  # too few for another file
    broker.kill()
    broker.prefix = SAVES_OFTEN
    for _ in range(2):
        small_disk.fill(room=len(saved) // 2)  # a start takes some of it
        broker.start()
        await _until(lambda: "health is red: light-queues/save: fails again and again" in _newest_life(broker))
        await _until(lambda: not half.exists())
        assert file.read_bytes() == saved
        broker.kill()
    small_disk.fill()
    broker.start()
    sending = asyncio.create_task(load.send_to_each())
    await _until(lambda: any("after a start, which waits: disk full" in reason for reason in load.refused))
    small_disk.free()
    await sending
    await _until(lambda: file.read_bytes() != saved)
    assert broker.stop() == 0
    load.check(broker.store)


def _newest_life(broker: BrokerProcess) -> str:
    """What the broker has logged since its last start."""
    return (broker.root / "broker.log").read_text().rpartition("rocketlake.cli.build")[2]


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
