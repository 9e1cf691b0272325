"""Owns the targets that read what a disk or another replica gives: files of a store, the streams between replicas.

Must not know   requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.replication.auto_switch.layout import HANDSHAKE, REPORT
from rocketlake.replication.auto_switch.master_end import AutoSwitchLeader, LeaderSays
from rocketlake.replication.auto_switch.slave_end import AutoSwitchFollower
from rocketlake.replication.classic import ClassicFollower, ClassicLeader
from rocketlake.replication.dialect import Agreement, Answer, FollowerDialect, LeaderDialect, Report
from rocketlake.replication.epochs.history import Epoch, EpochHistory
from rocketlake.replication.incoming import Incoming
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage, PutStatus
from rocketlake.store.timer.layout import DUE, SLOT_BYTES, SLOTS
from rocketlake.store.timer.timer_store import TimerStore, Waiting
from tests.epoch_group import Replica
from tests.fuzz.bytes_drawn import Edit, damaged, edited, edits
from tests.fuzz.server_targets import Failures
from tests.fuzz.target import Target
from tests.fuzz.wire_targets import GOLDEN
from tests.parity.worlds import World
from tests.requests import send_header

STORE = Path("/store")
_HELLO = HANDSHAKE.pack(1, False, False, 2)


@cache
def whole_store() -> dict[str, bytes]:
    """The files of a broker that was stopped: messages, keys, delays, tables."""

    async def work() -> dict[str, bytes]:
        world = World(by_runs=False, sync=True, takes_times=False)
        await world.start()
        for number, properties in enumerate(("KEYS\x01k\x02", "TAGS\x01t\x02", "DELAY\x013\x02", "")):
            command = Command.request(Code.SEND_MESSAGE_V2, send_header("T", number % 4, properties), bytes(200))
            await world.send(b"".join(bytes(part) for part in encode_command(command, 0)))
        for _ in range(100):
            world.broker.store.put(PutMessage("Many", 1, bytes(900), properties=b"KEYS\x01a b\x02"))
        await world.clock.run_for(2_000)
        await world.stop()
        return {path: data for path, data in world.contents().items() if data}

    return asyncio.run(work())


@cache
def _settings() -> tuple[BrokerConfig, StoreConfig]:
    broker = World(by_runs=False, sync=False, takes_times=False).broker
    return broker.config.now, broker.store.config


async def _open(disk: MemoryFiles, clock: ManualClock) -> None:
    """Start a broker on this disk: it serves, or refuses by an error of ours, which names what to do."""
    broker = Broker(
        *_settings(), files=disk, clock=clock, network=MemoryNet(clock=clock).host("10.0.0.100"), workers=InlineWorker
    )
    try:
        await broker.start()
    except RocketLakeError as problem:
        assert problem.hint or problem.where or getattr(problem, "path", ""), f"says nothing to do: {problem}"
        return
    await clock.run_for(3_000)
    store = broker.store
    if store.put(PutMessage("Many", 0, b"behind")).status is PutStatus.OK:
        found = store.get("Many", 0, store.max_offset("Many", 0) - 1, 1, 1 << 20)
        assert [message.body for message in decode_records(b"".join(found.slices))] == [b"behind"]
    for topic, queue_id in (("T", 0), ("T", 1), ("Many", 1), ("SCHEDULE_TOPIC_XXXX", 2)):
        offset = store.min_offset(topic, queue_id)
        for _ in range(200):
            found = store.get(topic, queue_id, offset, 32, 1 << 20)
            if not found.count:
                break
            assert found.next_offset > offset
            offset = found.next_offset
    await broker.stop()


def _store(case: tuple[bool, list[tuple[int, list[Edit]]]]) -> None:
    is_clean, damages = case
    files = dict(whole_store())
    names = sorted(files)
    for number, many in damages:
        name = names[number % len(names)]
        files[name] = edited(files[name], many)
    clock = ManualClock(1_700_000_100_000)
    disk = MemoryFiles(clock=clock)
    for name, data in files.items():
        disk.make_dirs(Path(name).parent)
        disk.write_bytes(Path(name), data)
    if not is_clean:
        disk.write_bytes(STORE / "abort", b"")

    async def work() -> None:
        await _open(disk, clock)

    with failing_on_tracebacks():
        asyncio.run(work())


@contextlib.contextmanager
def failing_on_tracebacks() -> Iterator[None]:
    """Fail if an error is logged that nobody expected."""
    import logging

    failures = Failures()
    logging.getLogger().addHandler(failures)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(failures)
    if failures.lines:
        raise AssertionError("; ".join(failures.lines))


NOW_MS = 1_700_000_000_000
TIMER_FILE_BYTES = 52 * 10 + 16


@cache
def timer_files() -> dict[str, bytes]:
    """The files of a timer store with thirty messages; of the wheel, which is huge and empty, the slots in use."""
    disk = MemoryFiles()
    disk.make_dirs(STORE)
    timers = TimerStore(STORE, disk, file_bytes=TIMER_FILE_BYTES, precision_ms=1000)
    timers.load()
    for number in range(30):
        timers.put([Waiting(NOW_MS + number % 7 * 1000, DUE, number * 100, 100, -7)], NOW_MS)
    job = timers.to_flush(NOW_MS)
    assert job is not None
    timers.flushed(job())
    timers.close()
    names = [STORE / "config/timercheck", *(STORE / "timerlog" / name for name in disk.list_dir(STORE / "timerlog"))]
    files = {str(path): disk.read_bytes(path) for path in names}
    begin, end = _used()
    return files | {str(STORE / "timerwheel"): disk.read_bytes(STORE / "timerwheel")[begin:end]}


def _used() -> tuple[int, int]:
    first = NOW_MS // 1000 % SLOTS * SLOT_BYTES
    return first - 2 * SLOT_BYTES, first + 9 * SLOT_BYTES


def _timers(case: list[tuple[int, list[Edit]]]) -> None:
    files = dict(timer_files())
    names = sorted(files)
    for number, many in case:
        name = names[number % len(names)]
        files[name] = edited(files[name], many)
    disk = MemoryFiles()
    begin, end = _used()
    for name, data in files.items():
        if name.endswith("timerwheel") and len(data) >= end - begin:
            data = bytes(begin) + data[: end - begin] + bytes(SLOTS * SLOT_BYTES - end)
        disk.make_dirs(Path(name).parent)
        disk.write_bytes(Path(name), data)
    timers = TimerStore(STORE, disk, file_bytes=TIMER_FILE_BYTES, precision_ms=1000)
    with contextlib.suppress(RocketLakeError):
        timers.load()
        for second in range(8):
            assert len(timers.units(NOW_MS + second * 1000)) <= 40
        timers.put([Waiting(NOW_MS + 60_000, DUE, 5000, 100, -7)], NOW_MS)
        assert [unit.physical_offset for unit in timers.units(NOW_MS + 60_000)] == [5000]
    timers.close()


def _chunks(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    at = 0
    for cut in [*cuts, len(data)]:
        yield data[at : at + cut]
        at += cut
        if at >= len(data):
            return


def _from_slave(case: tuple[bytes, list[int]]) -> None:
    data, cuts = case
    history = EpochHistory([Epoch(1, 0), Epoch(3, 500)])
    ends: list[LeaderDialect] = [
        ClassicLeader("h"),
        AutoSwitchLeader(LeaderSays(lambda: history, lambda: 1000, lambda: 900)),
    ]
    for end in ends:
        with contextlib.suppress(RocketLakeError):
            for chunk in _chunks(data, cuts):
                for event in end.feed(chunk):
                    assert isinstance(event, Report | Answer)
                    if isinstance(event, Report):
                        assert event.end >= 0


def _from_master(case: tuple[bool, bytes, list[int]]) -> None:
    by_epochs, data, cuts = case

    async def work() -> None:
        clock = ManualClock()
        replica = Replica(clock, MemoryNet(clock=clock).host("a"), 1, host="a", file_bytes=65536)
        await replica.start()
        end: FollowerDialect
        if by_epochs:
            end = AutoSwitchFollower(replica.store, replica.epochs, replica.broker_id)
        else:
            end = ClassicFollower()
        end.hello(replica.end)
        incoming = Incoming(replica.store, 1 << 20)
        with contextlib.suppress(RocketLakeError):
            for chunk in _chunks(data, cuts):
                for event in end.feed(chunk):
                    if isinstance(event, Agreement):
                        incoming.append()
                        await event.settle()
                        incoming = Incoming(replica.store, 1 << 20)
                    else:
                        incoming.expect(event.offset)
                        incoming.add(event.data)
                        end.appended(incoming.append(), event.confirm)
        assert replica.end <= len(data) + 65536
        await replica.stop()

    asyncio.run(work())


def _stream(name: str, most: int) -> bytes:
    return (GOLDEN / name).read_bytes()[:most]


_CLASSIC = [path.read_bytes()[:6000] for path in sorted((GOLDEN / "classic").rglob("*master*.bin"))]
_cuts = st.lists(st.sampled_from([1, 7, 12, 36, 300, 5000]), max_size=8)
TARGETS = [
    Target(
        "store-files",
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 60), edits), min_size=1, max_size=3)),
        _store,
        40,
    ),
    Target("timer-files", st.lists(st.tuples(st.integers(0, 9), edits), min_size=1, max_size=3), _timers, 12),
    Target(
        "from-slave",
        st.tuples(
            damaged(
                [_HELLO + REPORT.pack(2, 700), (700).to_bytes(8, "big") * 3, _stream("auto_switch/join_slave.bin", 400)]
            ),
            _cuts,
        ),
        _from_slave,
        250,
    ),
    Target(
        "from-master",
        st.one_of(
            st.tuples(
                st.just(True),
                damaged([_stream("auto_switch/join_master.bin", 6000), _stream("auto_switch/return_master.bin", 6000)]),
                _cuts,
            ),
            st.tuples(st.just(False), damaged(_CLASSIC), _cuts),
        ),
        _from_master,
        80,
    ),
]
