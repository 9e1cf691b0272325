from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.worker import HandWorker, InlineWorker
from rocketlake.store.config import StoreConfig
from rocketlake.store.mapped_file import MappedFile
from rocketlake.store.mapped_file_list import MappedFileList
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus
from rocketlake.store.retention import Retention
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

HOUR = 3_600_000
ALL_HOURS = ";".join(f"{hour:02}" for hour in range(24))
GIB = 1 << 30


async def aged_store(world: World, **settings: object) -> MessageStore:
    """Five full files, all flushed, at a local hour that is not 04."""
    world.disk.capacity = 100 * GIB
    world.clock.jump_wall((12 - time.localtime(world.clock.now_ms() / 1000).tm_hour) * HOUR)
    store = await world.started(clean_interval_ms=10_000, **settings)
    for number in range(20):
        put_ok(store, b"x" * 900 + bytes([number]))
        await world.clock.run_for(600)
    store.log.list.flush()
    assert len(store.log.list.files) >= 5
    return store


def percent_used(world: World, percent: float) -> None:
    world.files.plan.free_bytes = round(world.disk.capacity * (1 - percent / 100))


async def looked(world: World) -> None:
    await world.clock.run_for(10_000)


async def test_young_files_stay_whatever_the_hour(world: World) -> None:
    store = await aged_store(world)
    world.clock.jump_wall(16 * HOUR)  # 04 h
    percent_used(world, 50)
    await looked(world)
    assert store.min_physical_offset == 0


async def test_expired_files_go_at_four_o_clock_and_the_last_file_stays(world: World) -> None:
    store = await aged_store(world)
    percent_used(world, 50)
    world.clock.advance(72 * HOUR)
    await looked(world)
    assert store.min_physical_offset == 0  # it is noon
    world.clock.advance(16 * HOUR)
    await looked(world)
    last = store.log.list.files[-1]
    assert store.min_physical_offset == last.start
    assert world.disk.exists(last.path)
    assert not world.disk.exists(last.path.with_name("0" * 20))


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_clock_that_is_set_forward_by_days_ages_no_file(world: World, restarted: bool) -> None:
    store = await aged_store(world, delete_when=ALL_HOURS)
    if restarted:
        await store.stop()
        store = await world.started(delete_when=ALL_HOURS)
    percent_used(world, 50)
    world.clock.jump_wall(1000 * HOUR)
    await looked(world)
    assert store.min_physical_offset == 0
    world.clock.advance(71 * HOUR)
    await looked(world)
    assert store.min_physical_offset == 0
    world.clock.advance(HOUR)
    await looked(world)
    assert store.min_physical_offset > 0


async def test_files_from_before_a_start_expire_by_the_age_they_had_then(world: World) -> None:
    store = await aged_store(world)
    await store.stop()
    percent_used(world, 50)
    world.clock.advance(80 * HOUR)
    store = await world.started(delete_when=ALL_HOURS)
    await looked(world)
    assert store.min_physical_offset > 0


async def test_the_hours_of_deletion_are_a_setting(world: World) -> None:
    store = await aged_store(world, delete_when="03;12")
    percent_used(world, 50)
    world.clock.advance(72 * HOUR)
    await looked(world)
    assert store.min_physical_offset > 0


async def test_a_crowded_disk_deletes_expired_files_at_any_hour(world: World) -> None:
    store = await aged_store(world)
    world.clock.advance(72 * HOUR)
    percent_used(world, 75)
    await looked(world)
    assert store.min_physical_offset == 0
    percent_used(world, 75.1)
    await looked(world)
    assert store.min_physical_offset > 0


async def test_an_administrator_may_ask_for_it(world: World) -> None:
    store = await aged_store(world)
    percent_used(world, 50)
    world.clock.advance(72 * HOUR)
    store.retention.ask()
    await looked(world)
    assert store.min_physical_offset > 0


async def test_above_the_forcible_level_age_does_not_count(world: World) -> None:
    store = await aged_store(world, delete_batch_max=2)
    percent_used(world, 86)
    await looked(world)
    assert store.min_physical_offset == store.config.commit_log_file_bytes * 2
    assert store.writable


async def test_forcible_deletion_can_be_switched_off(world: World) -> None:
    store = await aged_store(world, clean_forcibly=False)
    percent_used(world, 86)
    await looked(world)
    assert store.min_physical_offset == 0


async def test_above_the_warning_level_puts_are_refused_and_reads_go_on(world: World) -> None:
    store = await aged_store(world, clean_forcibly=False)
    percent_used(world, 90.5)
    await looked(world)
    result = store.put(message())
    assert result.status is PutStatus.DISK_FULL
    assert "90.5 % of the disk" in result.reason
    assert "diskSpaceWarningLevelRatio is 90" in result.reason
    assert len(bodies_of(store)) == 20


async def test_puts_are_taken_again_at_the_forcible_level_not_before(world: World) -> None:
    store = await aged_store(world, clean_forcibly=False)
    percent_used(world, 91)
    await looked(world)
    percent_used(world, 86)
    await looked(world)
    assert not store.writable
    percent_used(world, 85)
    await looked(world)
    assert store.put(message()).status is PutStatus.OK


async def test_a_full_disk_refuses_puts_from_the_start(world: World) -> None:
    percent_used(world, 95)
    store = await world.started()
    assert store.put(message()).status is PutStatus.DISK_FULL


async def test_queues_start_where_the_log_starts_and_offsets_stay(world: World) -> None:
    store = await aged_store(world)
    percent_used(world, 50)
    world.clock.advance((72 + 16) * HOUR)
    await looked(world)
    low = store.min_offset("T", 0)
    assert 0 < low < 20
    assert store.max_offset("T", 0) == 20
    assert bodies_of(store) == [b"x" * 900 + bytes([number]) for number in range(low, 20)]
    assert store.put(message()).queue_offset == 20


async def test_a_reader_keeps_what_it_holds_while_the_file_goes(world: World) -> None:
    store = await aged_store(world)
    held = store.get("T", 0, 0, 4, 1 << 20).slices
    before = [bytes(record) for record in held]
    percent_used(world, 86)
    await looked(world)
    assert store.read_record(0) is None
    assert [bytes(record) for record in held] == before


async def test_files_stay_until_the_queues_of_their_messages_are_on_disk(world: World) -> None:
    """Else nobody would know after a crash which queue offsets were given out."""
    store = await aged_store(world, delete_when=ALL_HOURS, queue_flush_thorough_interval_ms=1 << 40)
    percent_used(world, 50)
    world.clock.advance(80 * HOUR)
    await looked(world)
    assert store.min_physical_offset == 0
    await world.killed()
    world.clock.advance(80 * HOUR)
    store = await world.started(delete_when=ALL_HOURS, queue_flush_thorough_interval_ms=1000)
    await looked(world)
    await looked(world)
    assert store.min_physical_offset > 0
    assert store.max_offset("T", 0) == 20


@pytest.mark.parametrize("killed", [False, True])
async def test_a_file_that_cannot_be_deleted_is_named_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture, killed: bool
) -> None:
    store = await aged_store(world)
    oldest = store.log.list.folder / f"{0:020d}"
    world.files.plan.add(Fault("remove", "commitlog", times=1))
    percent_used(world, 86)
    await looked(world)
    assert f"cannot delete {oldest}" in caplog.text
    if killed:  # without a gap: else the store could not be opened
        await world.killed()
        store = await world.started()
    await looked(world)
    await looked(world)
    assert not world.disk.exists(oldest)
    assert not world.disk.exists(oldest.with_name(f"{4096:020d}"))
    assert world.disk.list_dir(oldest.parent)[0] == store.log.list.files[0].path.name


async def test_files_that_are_not_synced_are_not_deleted(world: World) -> None:
    store = await world.started(hold_sync=True, clean_interval_ms=1000)
    for _ in range(10):
        put_ok(store, b"x" * 900)
    percent_used(world, 86)
    await world.clock.run_for(1000)
    assert store.min_physical_offset == 0
    world.sync.run_all()
    await world.clock.run_for(1000)
    assert store.min_physical_offset > 0


async def test_an_error_of_one_queue_costs_neither_the_files_taken_out_nor_the_rounds_to_come(world: World) -> None:
    store = await aged_store(world)
    percent_used(world, 50)
    world.clock.advance(72 * HOUR)
    queue = store.queues.find("T", 0)
    assert queue is not None
    real, refusals = store.queues.delete_before, [OSError(24, "Too many open files"), ValueError("a mistake")]

    def refuse(min_physical: int) -> Iterator[MappedFile]:
        if refusals:
            raise refusals.pop()
        yield from real(min_physical)

    store.queues.delete_before = refuse  # type: ignore[method-assign]
    store.retention.ask()
    first = store.log.list.files[0].path
    await looked(world)
    assert not world.disk.exists(first)
    assert "retention/round" in store.health.troubles
    await looked(world)
    await looked(world)
    assert not refusals
    assert store.health.is_green
    percent_used(world, 95)
    await looked(world)
    assert store.retention.disk_full


async def test_a_file_whose_age_cannot_be_read_does_not_hide_how_full_the_disk_is(world: World) -> None:
    store = await aged_store(world)
    world.disk.remove(store.log.list.files[0].path)
    percent_used(world, 95)
    await looked(world)
    assert store.retention.disk_full


async def test_after_the_stop_no_file_is_deleted_any_more(world: World) -> None:
    worker = HandWorker()
    removed: list[str] = []

    class Old:
        def __init__(self, name: str) -> None:
            self.path = Path(name)

        def remove(self) -> None:
            removed.append(self.path.name)

    retention = Retention(
        MappedFileList(Path("/log"), 4096, world.files),
        [Path("/")],
        StoreConfig(),
        files=world.files,
        clock=world.clock,
        worker=worker,
        drop_below=lambda _position: iter(()),
        derived=lambda: 0,
    )
    retention._remove([Old("a"), Old("b"), Old("c")])
    worker.run_one()
    await retention.stop()
    worker.run_all()
    assert removed == ["a", "b"]


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_file_of_a_topic_made_again_is_not_taken_for_an_expired_one_of_its_name(world: World, end: str) -> None:
    """hunt.md, H2: expired files were unlinked by path, later, on a worker, when the path was a new file's again."""
    deleting = HandWorker()

    async def started() -> MessageStore:
        config = StoreConfig(
            commit_log_file_bytes=4096,
            consume_queue_file_bytes=140,
            index_slots=7,
            index_entries=400,
            delete_when=";".join(f"{hour:02d}" for hour in range(24)),
        )
        workers = {"store-delete": deleting}
        store = MessageStore(
            ROOT,
            config,
            files=world.files,
            clock=world.clock,
            workers=lambda name: workers.get(name) or InlineWorker(name),
        )
        world.opened.append(store)
        await store.start()
        return store

    store = await started()
    deleting.run_all()
    put_ok(store, *[b"x" * 900] * 60)
    store.log.list.flush()
    flushed(store)
    world.clock.jump_wall(100 * HOUR)
    store.retention.look()
    deleting.run_one()  # measured: the oldest files are taken out, none of them is removed yet
    store.delete_topics(["T"])
    new = [b"new %d" % number for number in range(5)]
    put_ok(store, *new)
    store.log.list.flush()
    flushed(store)
    assert world.disk.exists(ROOT / "consumequeue/T/0" / f"{0:020d}"), "the path of an expired file again"
    deleting.run_all()
    if end == "kill":
        await world.killed()
    else:
        stopping = asyncio.ensure_future(store.stop())
        while not stopping.done():
            deleting.run_all()
            await asyncio.sleep(0)
        await stopping
    deleting = HandWorker()
    store = await started()
    deleting.run_all()
    assert bodies_of(store) == new
    assert put_ok(store, b"next")[0].queue_offset == 5


def flushed(store: MessageStore) -> None:
    for job in store.queues.to_flush(0):
        if job is not None:
            job.run()
            job.done()


async def store_whose_listener_waits(world: World) -> tuple[MessageStore, list[Callable[[], object]]]:
    """A store with expired files, and the calls by which its deletions would go on."""
    store = await aged_store(world, delete_when=ALL_HOURS)
    percent_used(world, 50)
    told: list[Callable[[], object]] = []
    store.retention.before_drop = lambda _start, go_on: told.append(go_on)
    world.clock.advance(72 * HOUR)
    return store, told


async def test_a_listener_that_does_not_come_back_puts_off_a_round_but_does_not_stop_it(world: World) -> None:
    store, told = await store_whose_listener_waits(world)
    await looked(world)
    await looked(world)
    assert (len(told), store.min_physical_offset) == (1, 0)
    await looked(world)
    await looked(world)
    start = store.min_physical_offset
    assert start == store.log.list.files[-1].start
    put_ok(store, *(b"y" * 900 for _ in range(8)))
    told[0]()
    assert store.min_physical_offset == start, "what comes late does nothing"


async def test_no_file_is_taken_out_once_the_store_stops(world: World) -> None:
    store, told = await store_whose_listener_waits(world)
    await looked(world)
    await store.retention.stop()
    told[0]()
    assert store.min_physical_offset == 0
