"""A change of what the role asks for takes effect for the next message, by the run and in the ordinary way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from rocketlake.codec import record_run
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.durability import Demands, Stage
from tests.unit.broker.processors.test_send_durability import Bench, bench

__all__ = ["bench"]

TWO_COPIES = Demands({Stage.REPLICATED: 3000}, reads=(Stage.REPLICATED,))
PLAIN, ORDINARY = "UNIQ_KEY\x01K\x02", "UNIQ_KEY\x01K\x02DELAY\x010\x02"


@pytest.fixture
async def runs(bench: Bench) -> AsyncIterator[list[int]]:
    """How many messages each run has stored."""
    taken: list[int] = []
    put_run = bench.broker.ground.intake.put_run

    def count(run: record_run.RecordRun, counts: Iterable[Any]) -> bool:
        taken.append(len(run))
        return put_run(run, counts)

    bench.broker.ground.intake.put_run = count  # type: ignore[method-assign]
    yield taken


def readable(bench: Bench) -> int:
    return bench.broker.store.max_offset("T", 0)


async def sent(bench: Bench, properties: str) -> asyncio.Task[Command]:
    task = await bench.send(properties)
    await bench.clock.settle()
    return task


@pytest.mark.parametrize(("properties", "by_run"), [(PLAIN, 1), (ORDINARY, 0)])
async def test_sends_wait_for_replicas_while_the_role_asks_for_them(
    bench: Bench, runs: list[int], properties: str, by_run: int
) -> None:
    durability = bench.broker.store.durability
    durability.demand(Demands())
    assert (await sent(bench, properties)).result().code == ResponseCode.SUCCESS
    runs.clear()
    durability.demand(TWO_COPIES)
    waits = await sent(bench, properties)
    assert (waits.done(), readable(bench), bench.broker.ground.intake.waiting) == (False, 1, 1)
    durability.advance(Stage.REPLICATED, bench.broker.store.max_physical_offset)
    await bench.clock.settle()
    assert ((await waits).code, readable(bench), bench.broker.ground.intake.waiting) == (ResponseCode.SUCCESS, 2, 0)
    late = await sent(bench, properties)
    await bench.clock.run_for(3000)
    assert ((await late).code, readable(bench)) == (ResponseCode.FLUSH_SLAVE_TIMEOUT, 2)
    durability.demand(Demands())
    assert (await sent(bench, properties)).result().code == ResponseCode.SUCCESS
    assert (runs, readable(bench)) == ([1] * 3 if by_run else [], 4)
