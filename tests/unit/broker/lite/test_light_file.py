"""The file of the table of light queues: a start with it knows what a start without it reads from the log."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.broker.lite import light_queues
from tests.seeds import seeds
from tests.unit.broker.lite.light_world import FILE, LightWorld
from tests.unit.store.store_world import put_ok

LITES = "abcdefgh"
HALF = FILE.with_name("lightQueues.tmp")
SAVED_MS = 12_000
"""Within them the file is written, if enough is new."""


@pytest.fixture(autouse=True)
def _saved_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_queues, "_SAVE_EVERY", 10)


@pytest.fixture
async def world() -> AsyncIterator[LightWorld]:
    """A master with 300 messages, of which the file holds 280."""
    world = LightWorld()
    await world.start()
    await world.lead()
    for number in range(280):
        world.send(LITES[number % 7])
    await world.clock.run_for(SAVED_MS)
    assert world.disk.files.exists(FILE)
    for number in range(20):
        world.send(LITES[number % 3 + 5])
    await world.clock.run_for(2000)
    yield world
    await world.stop()


@pytest.mark.parametrize("end", ["stop", "kill", "power cut"])
@pytest.mark.parametrize("leads", [True, False])
async def test_a_start_reads_what_came_behind_the_file(world: LightWorld, end: str, leads: bool) -> None:
    before = world.ends(LITES)
    if end == "stop":
        await world.stop()
    await world.die(power=end == "power cut")
    await world.start()
    await (world.lead() if leads else world.clock.run_for(1500))
    assert world.ends(LITES) == before == await world.ends_of_the_log(LITES)
    assert world.messages.count == 20


async def test_a_master_that_follows_and_leads_again_reads_little(world: LightWorld) -> None:
    world.queues.follow()
    await world.clock.run_for(1500)
    assert world.messages.count == 20
    world.copy("h", 10**6)
    await world.lead()
    assert world.end("h") == 10**6 + 1
    assert world.ends(LITES) == await world.ends_of_the_log(LITES)


async def _cut_and_grown(world: LightWorld) -> None:
    """The log is cut below the place of the file, and has other messages of the same length there."""
    places = world.places()
    world.queues.follow()
    await world.store.cut(places[-100])
    for _ in range(300):
        world.copy("z", 10**6 + world.store.max_physical_offset, queue_id=0)


async def _made_anew(world: LightWorld) -> None:
    """The parent is deleted and made anew; its queues are longer than before."""
    world.delete_parent()
    world.make_parent()
    for _ in range(400):
        world.send("z")


async def _broken(world: LightWorld) -> None:
    """A byte of the file is another one."""
    data = bytearray(world.disk.files.read_bytes(FILE))
    data[len(data) // 2] ^= 1
    world.disk.files.write_bytes(FILE, data)


async def _half(world: LightWorld) -> None:
    data = world.disk.files.read_bytes(FILE)
    world.disk.files.write_bytes(FILE, data[: len(data) // 2])


async def _empty(world: LightWorld) -> None:
    world.disk.files.write_bytes(FILE, b"")


@pytest.mark.parametrize("change", [_cut_and_grown, _made_anew, _broken, _half, _empty])
async def test_a_file_that_is_of_no_use_changes_nothing(world: LightWorld, change: object) -> None:
    assert callable(change)
    saved = world.disk.files.read_bytes(FILE)
    await change(world)
    if change not in (_broken, _half, _empty):  # it was not written anew before the crash
        world.disk.files.write_bytes(FILE, saved)
    await world.clock.run_for(600)
    await world.die()
    await world.start()
    await world.lead()
    assert world.ends(LITES + "z") == await world.ends_of_the_log(LITES + "z")
    assert world.messages.count > 100, "the log was read"


async def test_a_log_that_has_grown_again_to_the_byte_is_another_one() -> None:
    world = LightWorld()
    await world.start()
    for number in range(100, 140):
        world.copy("a", number)
    await world.clock.run_for(SAVED_MS)
    saved, end = world.disk.files.read_bytes(FILE), world.store.max_physical_offset
    await world.store.cut(world.places()[-5])
    for number in range(135, 140):
        world.copy("b", number)
    assert world.store.max_physical_offset == end
    await world.die()
    world.disk.files.write_bytes(FILE, saved)
    await world.start()
    await world.lead()
    assert (world.end("a"), world.end("b")) == (135, 140)
    await world.stop()


async def test_the_file_counts_no_message_that_a_power_cut_takes_away(world: LightWorld) -> None:
    saved = world.disk.files.read_bytes(FILE)
    while (written := world.disk.files.read_bytes(FILE)) == saved:
        world.send("h")
        await world.clock.run_for(100)
    assert int.from_bytes(written[8:16]) <= world.store.kept_end < world.store.max_physical_offset


async def test_a_parent_whose_messages_have_all_expired_is_made_anew(world: LightWorld) -> None:
    for number in range(200):
        world.send(LITES[number % 8])
    put_ok(world.store, *[b"x" * 1000] * 20, topic="Other")
    world.expire()
    await world.clock.run_for(SAVED_MS)
    world.delete_parent()
    world.make_parent()
    await world.die()
    await world.start()
    await world.lead()
    assert not any(world.ends(LITES).values())


async def test_what_expires_while_the_file_holds_it(world: LightWorld) -> None:
    put_ok(world.store, *[b"x" * 1000] * 20, topic="Other")
    world.send("h")
    world.expire()
    await world.clock.run_for(1500)
    await world.die()
    await world.start()
    await world.lead()
    assert {lite: end for lite, end in world.ends(LITES).items() if end} == {"h": world.ends("h")["h"]}
    number = world.end("h")
    world.send("h")
    assert number is not None
    assert world.end("h") == number + 1


async def test_a_disk_that_refuses_the_file_costs_the_file_only(world: LightWorld) -> None:
    saved = world.disk.files.read_bytes(FILE)
    world.disk.files.plan.add(Fault("write_bytes", FILE.name, error=errno.ENOSPC, times=1, keep_bytes=100))
    for _ in range(50):
        world.send("a")
    await world.clock.run_for(SAVED_MS)
    assert world.disk.files.read_bytes(FILE) == saved
    assert not world.disk.files.exists(HALF), "messages need the room"
    await world.clock.run_for(SAVED_MS)
    assert world.disk.files.read_bytes(FILE) != saved


@pytest.mark.parametrize("has_parent", [True, False])
async def test_half_a_file_of_a_crash_does_not_stay(world: LightWorld, has_parent: bool) -> None:
    if not has_parent:
        world.delete_parent()
    await world.die()
    world.disk.files.write_bytes(HALF, world.disk.files.read_bytes(FILE)[:100])
    await world.start()
    assert not world.disk.files.exists(HALF)
    await world.lead()
    assert world.messages.count == (20 if has_parent else 0)


async def test_other_messages_of_the_log_do_not_matter(world: LightWorld) -> None:
    put_ok(world.store, b"x", b"y", topic="Other")
    await world.clock.run_for(1000)
    await world.die()
    await world.start()
    await world.lead()
    assert world.messages.count == 20


@pytest.mark.parametrize("seed", seeds("light file", short=20, whole=40))
async def test_any_history_ends_with_the_table_of_the_log(seed: int) -> None:
    """Messages, saves, crashes, deletions, cuts and changes of the role in any order."""
    chance = random.Random(seed)
    world = LightWorld()
    await world.start()
    await world.lead()
    for _ in range(chance.randrange(4, 16)):
        await _step(world, chance)
        assert world.ends(LITES) == await world.ends_of_the_log(LITES), seed
    await world.stop()


async def _step(world: LightWorld, chance: random.Random) -> None:
    for _ in range(chance.randrange(60)):
        world.send(chance.choice(LITES))
    match chance.randrange(8):
        case 0:
            world.delete_parent()
            await world.clock.run_for(chance.choice([0, 500]))
            world.make_parent()
        case 1:
            world.queues.follow()
            await world.store.cut(chance.choice([*world.places()[-40:], world.store.max_physical_offset]))
            await world.clock.run_for(chance.choice([0, 1500, SAVED_MS]))
        case 2 | 3:
            await world.clock.run_for(chance.randrange(700))
            await world.die(power=chance.random() < 0.5)
            await world.start()
            await world.clock.run_for(chance.choice([0, 300, 1500, SAVED_MS]))
        case 4:
            await world.clock.run_for(chance.randrange(1000))
            world.queues.follow()
            await world.clock.run_for(chance.choice([0, 1500]))
        case _:
            await world.clock.run_for(SAVED_MS)
    await world.lead()
