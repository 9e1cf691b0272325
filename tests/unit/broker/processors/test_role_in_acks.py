"""A change of what the role asks for takes effect for the next message, by the run and in the ordinary way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from rocketlake.broker.wings import plain_runs
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.durability import Demands, Stage
from tests.unit.broker.processors.test_send_durability import Bench, bench

if TYPE_CHECKING:
    from rocketlake.codec.record_run import RecordRun

__all__ = ["bench"]

TWO_COPIES = Demands({Stage.REPLICATED: 3000}, reads=(Stage.REPLICATED,))
PLAIN, ORDINARY = "UNIQ_KEY\x01K\x02", "UNIQ_KEY\x01K\x02DELAY\x010\x02"


@pytest.fixture
async def runs(bench: Bench) -> AsyncIterator[list[int]]:
    """How many messages each run has stored."""
    taken: list[int] = []
    put_run = bench.broker.ground.intake.put_run

    def count(run: RecordRun, counts: Iterable[Any]) -> bool:
        taken.append(len(run))
        return put_run(run, counts)

    bench.broker.ground.intake.put_run = count  # type: ignore[method-assign]
    yield taken


def goes_by_run(properties: str) -> bool:
    """True if a run of plain sends serves a message with these properties; without kernels there are no runs."""
    return properties == PLAIN and plain_runs.are_there()


def readable(bench: Bench) -> int:
    return bench.broker.store.max_offset("T", 0)


async def sent(bench: Bench, properties: str) -> asyncio.Task[Command]:
    task = await bench.send(properties)
    await bench.clock.settle()
    return task


@pytest.mark.parametrize("properties", [PLAIN, ORDINARY])
async def test_sends_wait_for_replicas_while_the_role_asks_for_them(
    bench: Bench, runs: list[int], properties: str
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
    assert (runs, readable(bench)) == ([1] * 3 if goes_by_run(properties) else [], 4)
