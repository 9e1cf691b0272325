"""Consume queues that were lost, cut, mixed up or damaged by a disk: noticed, and built again from the log."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.base.errors import StoreError
from rocketlake.codec.record import decode_records
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, pack_entry
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

QUEUES = ROOT / "consumequeue"
FOLDER = QUEUES / "T" / "0"
FIRST = FOLDER / f"{0:020d}"
ALL_HOURS = ";".join(f"{hour:02d}" for hour in range(24))
BODIES = [b"%03d" % number * 20 for number in range(35)]
OTHERS = [b"other %03d" % number * 20 for number in range(35)]


async def filled(world: World, *, clean: bool) -> None:
    """A queue of T and one of S, their messages in turn; all queues are safe on disk."""
    store = await world.started(queue_flush_thorough_interval_ms=1000)
    for body, other in zip(BODIES, OTHERS, strict=True):
        put_ok(store, body)
        put_ok(store, other, topic="S")
    if clean:
        await store.stop()
    else:
        await world.clock.run_for(3000)
    await world.killed()


def remove_folder(world: World) -> None:
    for name in world.disk.list_dir(FOLDER):
        world.disk.remove(FOLDER / name)
    world.disk.remove(FOLDER)


def remove_all(world: World) -> None:
    for folder in (FOLDER, QUEUES / "S" / "0"):
        for name in world.disk.list_dir(folder):
            world.disk.remove(folder / name)
        world.disk.remove(folder)


def overwrite(world: World, number: int, data: bytes) -> None:
    """From entry `number` on."""
    for at in range(0, len(data), ENTRY_SIZE):
        offset = number * ENTRY_SIZE + at
        file = world.disk.open(FOLDER / f"{offset - offset % 200:020d}")
        file.pwrite(data[at : at + ENTRY_SIZE], offset % 200)
        file.sync()


def zero_all(world: World) -> None:
    overwrite(world, 0, bytes(35 * ENTRY_SIZE))


def zero_the_end(world: World) -> None:
    overwrite(world, 31, bytes(4 * ENTRY_SIZE))


def make_one_negative(world: World) -> None:
    overwrite(world, 22, b"\xff")


def zero_one(world: World) -> None:
    overwrite(world, 22, bytes(ENTRY_SIZE))


def copy_another_queue(world: World) -> None:
    for name in world.disk.list_dir(FOLDER):
        world.disk.write_bytes(FOLDER / name, world.disk.read_bytes(QUEUES / "S" / "0" / name))


def lengthen(world: World) -> None:
    overwrite(world, 35, pack_entry(100, 200, 0) * 2)


def shorten(world: World, number: int, length: int) -> None:
    file = world.disk.open(FOLDER / world.disk.list_dir(FOLDER)[number])
    file.truncate(length)
    file.sync()


def empty_the_first_file(world: World) -> None:
    shorten(world, 0, 0)


def cut_the_second_file(world: World) -> None:
    shorten(world, 1, 77)


def cut_the_last_file(world: World) -> None:
    shorten(world, -1, 77)


def remove_the_first_file(world: World) -> None:
    world.disk.remove(FIRST)


def remove_the_second_file(world: World) -> None:
    world.disk.remove(FOLDER / world.disk.list_dir(FOLDER)[1])


def bodies_at(store: MessageStore, offset: int) -> list[bytes]:
    answer = store.get("T", 0, offset, 1, 1 << 20)
    return [message.body for message in decode_records(b"".join(answer.slices))]


DAMAGES = [
    remove_folder,
    remove_all,
    zero_all,
    zero_the_end,
    make_one_negative,
    zero_one,
    copy_another_queue,
    lengthen,
    empty_the_first_file,
    cut_the_second_file,
    cut_the_last_file,
    remove_the_first_file,
    remove_the_second_file,
]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_queue_is_built_again(
    world: World, damage: object, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(world, clean=clean)
    damage(world)  # type: ignore[operator]
    store = await world.started()
    if not clean and damage in (copy_another_queue, lengthen):
        return  # after a kill nobody knows better: readers notice (test_foreign_records.py)
    assert "built again from the log" in caplog.text
    assert bodies_of(store) == BODIES
    assert bodies_of(store, topic="S") == OTHERS
    assert put_ok(store, b"next")[0].queue_offset == len(BODIES)
    await store.stop()
    caplog.clear()
    store = await world.started()
    assert bodies_of(store) == [*BODIES, b"next"]
    assert "built again" not in caplog.text


@pytest.mark.parametrize("clean", [True, False])
async def test_a_deleted_topic_does_not_come_back_when_a_queue_is_built_again(world: World, clean: bool) -> None:
    await filled(world, clean=True)
    store = await world.started(queue_flush_thorough_interval_ms=1000)
    store.delete_topics(["S"])
    put_ok(store, *[b"." * 300] * 40, queue_id=1)  # other files of the log come behind
    if clean:
        await store.stop()
    else:
        await world.clock.run_for(3000)
    await world.killed()
    remove_folder(world)
    store = await world.started()
    assert bodies_of(store) == BODIES
    assert store.max_offset("S", 0) == 0


async def test_offsets_of_a_lost_queue_without_records_are_not_given_out_again(world: World) -> None:
    await filled(world, clean=True)
    store = await world.started()
    put_ok(store, *[b"." * 1000] * 40, queue_id=1)
    await world.clock.run_for(11_000)
    dropped = store.log.list.drop_before(store.log.list.files[-1].start)
    await store.stop()
    for mapped in dropped:
        mapped.remove()
    remove_folder(world)
    for _ in range(3):
        store = await world.started()
        assert store.max_offset("T", 0) == 35
        assert bodies_of(store) == []
        await store.stop()
    store = await world.started()
    assert put_ok(store, b"next")[0].queue_offset == 35
    assert bodies_of(store) == [b"next"]


async def test_offsets_that_only_lost_messages_had_hide_none_when_the_log_loses_its_begin(world: World) -> None:
    """A file of a queue may end in fillers: behind the messages before them is nothing to tell their age by."""
    store = await world.started(delete_when=ALL_HOURS)
    put_ok(store, *[b"." * 1000] * 4, queue_id=1)
    put_ok(store, *BODIES[:3])
    store.queues.reach("T", 0, 12)
    put_ok(store, BODIES[3])
    await world.clock.run_for(3000)
    dropped = store.log.list.drop_before(store.log.list.files[1].start)
    assert dropped
    store.retention.look_again()
    assert bodies_of(store) == BODIES[:3]  # up to the fillers
    assert world.disk.exists(FIRST)


@pytest.mark.parametrize("number", range(10))
async def test_a_record_with_a_wrong_number_costs_no_other(world: World, number: int) -> None:
    """One bit of its queue offset is wrong when its queue is built again."""
    await filled(world, clean=True)
    whole = world.disk
    for bit in range(8):
        world.disk = whole.killed()
        world.files = FaultyFiles(world.disk)
        store = await world.started()
        place = store.queue_entries("T", 0, number, 1)[0][0]
        await store.stop()
        file = world.disk.open(ROOT / "commitlog" / f"{place - place % 4096:020d}")
        file.pwrite((number ^ 1 << bit).to_bytes(8, "big"), place % 4096 + 20)
        file.sync()
        remove_folder(world)
        store = await world.started()
        found = [body for offset in range(35) for body in bodies_at(store, offset)]
        assert [body for body in BODIES if body not in found] in ([], [BODIES[number]]), bit
        assert len(found) in (34, 35)
        await store.stop()


async def test_an_entry_that_seems_to_have_expired_is_found_again(world: World) -> None:
    store = await world.started()
    put_ok(store, *[b"." * 1000] * 4, queue_id=1)
    put_ok(store, *BODIES)
    await world.clock.run_for(3000)
    assert store.log.list.drop_before(store.log.list.files[1].start)
    await store.stop()
    overwrite(world, 17, bytes(8))
    assert bodies_of(await world.started()) == BODIES


async def test_two_kills_in_a_row_forget_no_end_of_a_queue(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """After the first one nothing is known to be on disk but what was there before: that must be written down again."""
    store = await world.started()
    put_ok(store, *BODIES[:1])
    put_ok(store, *[b"." * 1000] * 8, queue_id=1)
    await store.stop()
    for _ in range(2):
        await world.started()
        await world.killed()
    overwrite(world, 0, bytes(ENTRY_SIZE))
    assert bodies_of(await world.started()) == BODIES[:1]
    assert "it ends at 0, it was 1" in caplog.text


async def test_a_damaged_file_of_ends_is_said_and_not_believed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await filled(world, clean=True)
    data = bytearray(world.disk.read_bytes(ROOT / "queueEnds"))
    data[-5] ^= 1
    world.disk.write_bytes(ROOT / "queueEnds", data)
    store = await world.started()
    assert "queueEnds is damaged" in caplog.text
    assert bodies_of(store) == BODIES


async def test_what_another_broker_did_to_the_queues_in_between_is_no_damage(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache's broker deletes a topic, takes messages, and writes its numbers into the checkpoint."""
    await filled(world, clean=True)
    remove_folder(world)
    page = world.disk.open(ROOT / "checkpoint")
    page.pwrite((1_700_000_100_000).to_bytes(8, "big"), 0)
    store = await world.started()
    assert store.max_offset("T", 0) == 0
    assert "built again" not in caplog.text


def lose_the_last_file(world: World, names: list[str]) -> None:
    world.disk.remove(ROOT / "index" / names[-1])


def cut_an_index_file(number: int, length: int) -> Callable[[World, list[str]], None]:
    def cut(world: World, names: list[str]) -> None:
        file = world.disk.open(ROOT / "index" / names[number])
        file.truncate(length)
        file.sync()

    return cut


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "damage", [lose_the_last_file, cut_an_index_file(0, 100), cut_an_index_file(1, 0), cut_an_index_file(2, 0)]
)
async def test_a_lost_index_is_built_again(
    world: World, damage: Callable[[World, list[str]], None], clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = await world.started(queue_flush_thorough_interval_ms=1000, index_entries=30)
    for number in range(60):
        store.put(message(b"." * 200, properties=b"KEYS\x01k%d\x02" % number))
    if clean:
        await store.stop()
    else:
        await world.clock.run_for(3000)
    await world.killed()
    names = world.disk.list_dir(ROOT / "index")
    assert len(names) == 3
    damage(world, names)
    store = await world.started(index_entries=30)
    assert "key index is built again" in caplog.text
    assert [len(store.query("T", f"k{number}", 32, 0, 1 << 60).slices) for number in range(60)] == [1] * 60


async def test_the_only_file_that_was_cut_may_be_of_another_setting_and_the_cure_says_both(world: World) -> None:
    store = await world.started()
    store.put(message(b"one", properties=b"KEYS\x01k\x02"))
    await store.stop()
    name = world.disk.list_dir(ROOT / "index")[0]
    for path, setting in ((FIRST, "mappedFileSizeConsumeQueue"), (ROOT / "index" / name, "maxIndexNum")):
        world.disk.open(path).truncate(100)
        with pytest.raises(StoreError, match=f"{setting} the store was made with; if .* remove the f.* built again"):
            await world.started()
        await world.killed()
        world.disk.remove(path)
    store = await world.started()
    assert bodies_of(store) == [b"one"]
    assert store.query("T", "k", 32, 0, 1 << 60).slices


def put_keyed(store: MessageStore, first: int, count: int, queues: int = 1) -> None:
    for number in range(first, first + count):
        properties = b"KEYS\x01k%d\x02" % number
        assert store.put(message(b"." * 20, queue_id=number % queues, properties=properties)).status.is_stored


async def test_a_kill_behind_a_thorough_round_leaves_the_index_as_it_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What was put while the round was under way is not on disk yet."""
    settings: dict[str, Any] = {"index_entries": 10_000, "commit_log_file_bytes": 65536}
    store = await world.started(**settings)
    put_keyed(store, 0, 10, queues=5)
    count = 10
    for job in store.upkeep.queue_jobs(0):
        put_keyed(store, count, 1)
        count += 1
        if job is not None:
            job.run()
            job.done()
    await world.killed()
    store = await world.started(**settings)
    assert "key index is built again" not in caplog.text
    assert [len(store.query("T", f"k{number}", 32, 0, 1 << 60).slices) for number in range(count)] == [1] * count


async def test_a_kill_behind_a_start_leaves_the_index_as_it_is(world: World, caplog: pytest.LogCaptureFixture) -> None:
    settings: dict[str, Any] = {"index_entries": 10_000, "commit_log_file_bytes": 65536}
    for start in range(3):
        store = await world.started(**settings)
        put_keyed(store, start, 1)
        await world.killed()
    store = await world.started(**settings)
    assert "key index is built again" not in caplog.text
    assert [len(store.query("T", f"k{number}", 32, 0, 1 << 60).slices) for number in range(3)] == [1] * 3


async def test_an_index_lost_behind_two_kills_is_built_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """What was safe before the first is remembered by the start behind it."""
    settings: dict[str, Any] = {"queue_flush_thorough_interval_ms": 1000}
    put_keyed(await world.started(**settings), 0, 60)
    await world.clock.run_for(3000)
    await world.killed()
    await world.started(**settings)
    await world.killed()
    for name in world.disk.list_dir(ROOT / "index"):
        world.disk.remove(ROOT / "index" / name)
    store = await world.started(**settings)
    assert "key index is built again" in caplog.text
    assert [len(store.query("T", f"k{number}", 32, 0, 1 << 60).slices) for number in range(60)] == [1] * 60


async def test_an_index_that_was_switched_off_for_a_while_gets_what_it_missed(world: World) -> None:
    for enabled in (True, False):
        store = await world.started(index_enabled=enabled)
        for number in range(20):
            store.put(message(b"." * 200, properties=b"KEYS\x01%s%d\x02" % (str(enabled).encode(), number)))
        await store.stop()
    store = await world.started()
    for number in range(20):
        assert len(store.query("T", f"True{number}", 32, 0, 1 << 60).slices) == 1
        assert len(store.query("T", f"False{number}", 32, 0, 1 << 60).slices) == 1


@pytest.mark.parametrize("seed", range(20))
async def test_seeded_bit_flips_in_ends_of_queues_lose_nothing(world: World, seed: int) -> None:
    """A flip that makes an entry odd, anywhere, after a clean stop; or several files lost."""
    rng = random.Random(seed)
    await filled(world, clean=True)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.3:
            names = world.disk.list_dir(FOLDER)
            for name in names[rng.randrange(len(names)) :]:
                world.disk.remove(FOLDER / name)
        elif world.disk.list_dir(FOLDER)[3:]:
            overwrite(world, rng.randrange(20, 35), rng.choice((b"\x80", bytes(ENTRY_SIZE), b"\0" * 8 + b"\xff" * 4)))
    store = await world.started()
    assert bodies_of(store) == BODIES
    assert bodies_of(store, topic="S") == OTHERS
    assert put_ok(store, b"next")[0].queue_offset == len(BODIES)


async def test_messages_around_a_lost_end_of_the_log_stay_when_the_log_loses_its_begin(world: World) -> None:
    """A power cut took the messages between two that now lie side by side: neither of them is damaged."""
    store = await world.started()
    put_ok(store, *BODIES[:3])
    put_ok(store, *[b"." * 1000] * 4, queue_id=1)
    put_ok(store, BODIES[3])
    store.queues.reach("T", 0, 500)
    put_ok(store, *BODIES[4:6])
    await world.clock.run_for(3000)
    dropped = store.log.list.drop_before(store.log.list.files[1].start)
    await store.stop()
    for mapped in dropped:
        mapped.remove()
    remove_folder(world)
    store = await world.started()
    assert [bodies_at(store, offset) for offset in (3, 500, 501)] == [[body] for body in BODIES[3:6]]
