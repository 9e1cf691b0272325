"""Units of the timer log by the run and one by one: the same files, the same chains."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.pure_import import has_kernel
from rocketlake.store.timer import log as timer_log
from rocketlake.store.timer.layout import DELETE, DUE, NOWHERE, ROLL
from rocketlake.store.timer.timer_store import TimerStore, Waiting
from rocketlake.store.timer.unit_stack import UnitStack, unit_rows

if not has_kernel("rocketlake.store.timer.unit_run"):
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.store.timer import unit_run

ROOT = Path("/s")
NOW = 1_700_000_000_000
TICKS = 12


def made(file_bytes: int) -> tuple[MemoryFiles, TimerStore]:
    disk = MemoryFiles()
    disk.make_dirs(ROOT)
    store = TimerStore(ROOT, disk, file_bytes=file_bytes, precision_ms=1000)
    store.load()
    return disk, store


def files(disk: MemoryFiles) -> dict[str, bytes]:
    names = [f"timerlog/{name}" for name in sorted(disk.list_dir(ROOT / "timerlog"))] + ["timerwheel"]
    return {name: disk.read_bytes(ROOT / name) for name in names}


def some(chance: random.Random, first: int) -> list[Waiting]:
    return [
        Waiting(
            NOW + 1000 * chance.randrange(-1, TICKS),
            chance.choice((DUE, DUE, DUE | ROLL, DELETE, DELETE | ROLL)),
            first + number * chance.randrange(1, 500),
            chance.randrange(91, 1 << 22),
            chance.randrange(-(1 << 31), 1 << 31),
        )
        for number in range(chance.choice((1, 3, 40)))
    ]


@pytest.mark.parametrize("seed", range(30))
def test_runs_and_single_messages_make_the_same_files(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    file_bytes = chance.choice((52 * 10 + 16, 52 * 7 + 40, 4096))
    (disk, store), (run_disk, run_store) = made(file_bytes), made(file_bytes)
    for step in range(8):
        messages, written = some(chance, step * 100_000), NOW - step
        store.put(messages, written)
        run = unit_run.UnitRun()
        run.put(messages)
        assert run.count == len(messages)
        assert run.ticks() == list(dict.fromkeys(message.due_ms for message in messages))
        run_store.put_run(run, written)
        if chance.random() < 0.2:
            for each in (store, run_store):
                each.done(NOW + 1000)
    assert files(disk) == files(run_disk)
    for tick in range(-1, TICKS):
        place = store.newest_place(NOW + tick * 1000)
        for most in (1, 3, 1000):
            monkeypatch.setattr(timer_log, "_kernel", None)
            rows, following = store.chain_rows(place, most)
            monkeypatch.undo()
            assert run_store.chain_rows(place, most) == (rows, following)


@pytest.mark.parametrize("seed", range(60))
def test_chains_in_damaged_logs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end at the same unit in both ways, and no chain runs in a circle."""
    chance = random.Random(seed)
    disk, store = made(52 * 30 + 16)
    for step in range(3):
        store.put(some(chance, step * 100_000), NOW)
    name = min(disk.list_dir(ROOT / "timerlog"))
    file = disk.open(ROOT / "timerlog" / name)
    for _ in range(3):
        unit = chance.randrange(20) * 52
        file.pwrite(chance.choice((b"\0", b"\x7f", b"\xff", b"\x34")), unit + chance.randrange(52))
        place = chance.choice((0, 52 * chance.randrange(30), NOWHERE, 7, 1 << 60))
        file.pwrite(place.to_bytes(8, "big", signed=True), chance.randrange(20) * 52 + 4)
    for tick in range(-1, TICKS):
        place = store.newest_place(NOW + tick * 1000)
        monkeypatch.setattr(timer_log, "_kernel", None)
        expected = store.chain_rows(place, 500)
        monkeypatch.undo()
        assert store.chain_rows(place, 500) == expected


def test_a_time_that_no_unit_can_say() -> None:
    run = unit_run.UnitRun()
    run.put([Waiting(NOW + (1 << 31), DUE, 0, 100, 0)])
    with pytest.raises(ValueError, match="too long"):
        run.encode(0, 4096, NOW, [NOWHERE])


@pytest.mark.parametrize("seed", range(50))
def test_rows_that_are_simple(seed: int) -> None:
    chance = random.Random(seed)
    stack = UnitStack()
    _disk, store = made(4096)
    for step in range(3):
        store.put(some(chance, step * 100_000), NOW)
    for tick in range(TICKS):
        stack.push(unit_rows(store.units(NOW + tick * 1000)[::-1]))
    rows = stack.rows
    for first in range(len(stack) + 1):
        lowest, expected = chance.choice((1 << 62, 150_000)), 0
        before = lowest
        for at in range(3 * first, len(rows), 3):
            if rows[at] >= before or (rows[at + 2] & DELETE and not rows[at + 2] & ROLL):
                break
            before, expected = rows[at], expected + 1
        assert unit_run.count_simple(rows, first, lowest) == expected
