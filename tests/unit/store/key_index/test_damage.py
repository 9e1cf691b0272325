"""Damaged content of the key index: searches end, damage is noticed, and the next start builds the index again."""

from __future__ import annotations

import random
import struct

import pytest

from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus
from tests.unit.store.store_world import ROOT, World, message

SLOTS, ENTRIES, KEYS = 50, 60, 150
INDEX = ROOT / "index"
ENTRY_AT = 40 + 4 * SLOTS


def keyed(number: int) -> PutMessage:
    return message(b"%d" % number, properties=b"KEYS\x01key%d\x02" % number)


async def stopped_store(world: World) -> None:
    """Three files of the index, two of them full; cleanly stopped."""
    store = await started(world)
    for number in range(KEYS):
        assert store.put(keyed(number)).status is PutStatus.OK
        await world.clock.run_for(7)
    await store.stop()
    assert len(world.disk.list_dir(INDEX)) == 3


async def started(world: World) -> MessageStore:
    return await world.started(index_slots=SLOTS, index_entries=ENTRIES)


def not_found(store: MessageStore) -> list[int]:
    found = [len(store.query("T", f"key{number}", 32, 0, 2**60).slices) for number in range(KEYS)]
    assert max(found) <= 1
    return [number for number, count in enumerate(found) if not count]


def write(world: World, file: int, position: int, data: bytes) -> None:
    world.disk.open(INDEX / world.disk.list_dir(INDEX)[file]).pwrite(data, position)


def read(world: World, file: int, position: int, size: int) -> bytes:
    return world.disk.open(INDEX / world.disk.list_dir(INDEX)[file]).pread(size, position)


def used_slot(world: World, file: int) -> int:
    slots = struct.unpack(f">{SLOTS}i", read(world, file, 40, 4 * SLOTS))
    return max(range(SLOTS), key=lambda slot: slots[slot])


DAMAGES = {
    "slot lost": lambda world, file: write(world, file, 40 + 4 * used_slot(world, file), bytes(4)),
    "slot of another": lambda world, file: write(world, file, 40 + 4 * used_slot(world, file), struct.pack(">i", 3)),
    "slot beyond the end": lambda world, file: write(
        world, file, 40 + 4 * used_slot(world, file), struct.pack(">i", 2**31 - 1)
    ),
    "link to itself": lambda world, file: write(world, file, ENTRY_AT + 20 * 30 + 16, struct.pack(">i", 30)),
    "link forward": lambda world, file: write(world, file, ENTRY_AT + 20 * 30 + 16, struct.pack(">i", 50)),
    "link below zero": lambda world, file: write(world, file, ENTRY_AT + 20 * 30 + 16, struct.pack(">i", -5)),
    "hash": lambda world, file: write(world, file, ENTRY_AT + 20 * 30, struct.pack(">i", 77)),
    "hash below zero": lambda world, file: write(world, file, ENTRY_AT + 20 * 30, struct.pack(">i", -77)),
    "offset beyond the log": lambda world, file: write(world, file, ENTRY_AT + 20 * 30 + 4, struct.pack(">q", 2**60)),
    "offset below zero": lambda world, file: write(world, file, ENTRY_AT + 20 * 30 + 4, struct.pack(">q", -9)),
    "entries zeroed": lambda world, file: write(world, file, ENTRY_AT + 20 * 10, bytes(20 * 20)),
    "count of the header": lambda world, file: write(world, file, 36, struct.pack(">i", 20)),
    "count zeroed": lambda world, file: write(world, file, 36, bytes(4)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [0, 2])
async def test_damage_is_noticed_and_mended_by_the_next_start(
    world: World, damage: str, file: int, caplog: pytest.LogCaptureFixture
) -> None:
    await stopped_store(world)
    DAMAGES[damage](world, file)
    store = await started(world)
    not_found(store)  # no search hangs, or fails, or finds another message
    await world.clock.run_for(15_000)
    if "built again from the whole log" not in caplog.text:  # the start has seen it already
        assert "restart" in store.health.troubles["store/key-index"].reason
        assert "key index file" in caplog.text
    assert store.put(keyed(KEYS)).status is PutStatus.OK
    await store.stop()
    store = await started(world)
    assert not_found(store) == []
    await world.clock.run_for(15_000)
    assert store.health.is_green


async def test_damage_is_not_forgotten_by_a_crash(world: World) -> None:
    await stopped_store(world)
    DAMAGES["slot lost"](world, 0)
    store = await started(world)
    await world.clock.run_for(15_000)
    assert "store/key-index" in store.health.troubles
    await world.clock.run_for(70_000)  # a thorough round
    await world.killed()
    assert not_found(await started(world)) == []


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_sound_index_is_left_alone(world: World, is_killed: bool, caplog: pytest.LogCaptureFixture) -> None:
    await stopped_store(world)
    store = await started(world)
    for number in range(KEYS, KEYS + 30):  # while it is checked
        store.put(keyed(number))
        await world.clock.run_for(500)
    if is_killed:
        await world.killed()
    else:
        await store.stop()
    store = await started(world)
    store.put(keyed(KEYS + 30))
    await world.clock.run_for(15_000)
    assert not_found(store) == []
    assert store.health.is_green
    assert "key index" not in caplog.text


async def test_a_kill_soon_after_a_round_builds_no_index_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """What was put since the last sync of the index is not what it "has at least"."""
    await stopped_store(world)
    store = await started(world)
    store.put(keyed(KEYS))
    await world.killed()
    store = await started(world)  # a start that dispatches this one again, into memory
    await world.killed()
    assert not_found(await started(world)) == []
    assert "built again from the whole log" not in caplog.text


@pytest.mark.parametrize("first", range(0, 60, 20))
async def test_no_flipped_bit_makes_a_search_fail_or_lie(first: int) -> None:
    for seed in range(first, first + 20):
        chance = random.Random(seed)
        world = World()
        await stopped_store(world)
        for _ in range(chance.randrange(1, 6)):
            file = chance.randrange(3)
            position = chance.randrange(ENTRY_AT + 20 * ENTRIES)
            byte = read(world, file, position, 1)[0] ^ 1 << chance.randrange(8)
            write(world, file, position, bytes([byte]))
        store = await started(world)
        not_found(store)
        await store.stop()
        await world.killed()
