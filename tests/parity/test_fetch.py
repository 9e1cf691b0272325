"""Both forms of store/fetch.py read one store alike."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, PutMessage

MESSAGES = 300
CONFIG = StoreConfig(
    commit_log_file_bytes=64 * 1024,
    consume_queue_file_bytes=2000,
    flush_least_pages=0,
    index_slots=10,
    index_entries=100,
)


class World:
    """A store with two queues in several files, some of whose records are damaged."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.plan = FaultPlan()
        files = FaultyFiles(MemoryFiles(clock=self.clock), self.plan)
        self.store = MessageStore(Path("/store"), CONFIG, files=files, clock=self.clock, workers=InlineWorker)

    def fill(self) -> None:
        rng = random.Random(3)
        for number in range(MESSAGES):
            body = b"x" * rng.randrange(1200)
            result = self.store.put(PutMessage("T", number % 2, body, properties=b"TAGS\x01ab\x02"[: 8 * (number % 2)]))
            if number % 23 == 5:
                mapped = self.store.log.list.find(result.physical_offset)
                assert mapped is not None
                mapped.file.pwrite(b"damaged", result.physical_offset - mapped.start)

    def fetchers(self, twin: Callable[[str], Any]) -> list[Any]:
        pair = twin("rocketlake.store.fetch")
        parts = self.store.log, CONFIG, self.store.residency, self.store.deletions
        return [form.Fetch(*parts) for form in (pair.source, pair.compiled)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.store.start()
    made.fill()
    yield made
    await made.store.stop()


def shown(result: GetResult) -> tuple[Any, ...]:
    return (
        result.status, [bytes(piece) for piece in result.slices], result.next_offset, result.min_offset,
        result.max_offset, result.bytes, result.count, result.cold,
    )  # fmt: skip


async def test_any_read(twin: Callable[[str], Any], world: World) -> None:
    source, compiled = world.fetchers(twin)
    rng = random.Random(7)
    tests = (None, lambda _code: True, lambda code: code != 0, lambda _code: False)
    statuses = set()
    for _ in range(600):
        queue = world.store.queues.find("T", rng.randrange(2))
        asked = (queue, rng.randrange(-3, MESSAGES // 2 + 3), rng.choice((1, 2, 32, 5000)),
                 rng.choice((-5, 0, 99, 3000, 1 << 27, 1 << 40)), rng.choice(tests))  # fmt: skip
        record_test = rng.choice((None, None, lambda record: record[-1] != 2))
        wait = rng.random() < 0.5
        expected = shown(source.fetch(*asked, record_test, wait=wait))
        assert shown(compiled.fetch(*asked, record_test, wait=wait)) == expected
        statuses.add(expected[0])
    assert len(statuses) >= 5


@pytest.mark.parametrize("call", ["is_resident", "pread_now"])
async def test_what_is_not_in_memory(twin: Callable[[str], Any], world: World, call: str) -> None:
    queue = world.store.queues.find("T", 1)
    results = []
    for form in world.fetchers(twin):
        world.clock.advance(2)  # what counted as sure is asked for again
        world.plan.add(Fault(call, path_part="commitlog" if call == "is_resident" else "consumequeue", error=5))
        results.append(shown(form.fetch(queue, 0, 32, 1 << 20, wait=False)))
    assert results[0] == results[1]
    assert results[0][-1], "nothing was cold"


async def test_what_is_recent(twin: Callable[[str], Any], world: World) -> None:
    source, compiled = world.fetchers(twin)
    for offset in (-1, 0, world.store.log.max_offset, 1 << 40):
        assert compiled.is_in_memory(offset) == source.is_in_memory(offset)
