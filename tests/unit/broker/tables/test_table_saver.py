from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.tables.table_saver import TableSaver

PATH = Path("/store/config/consumerOffset.json")


class Case:
    def __init__(self, files: Files, worker: Worker) -> None:
        self.clock = ManualClock()
        self.files = files
        self.table = OffsetTable(PATH, files, self.clock)
        self.worker = worker
        self.saver = TableSaver(files, self.clock, worker, interval_ms=5000)
        self.saver.add(self.table)

    def saved(self, queue_id: int = 0) -> int:
        table = OffsetTable(PATH, self.files, self.clock)
        table.load()
        return table.query("g", "T", queue_id)


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    case = Case(MemoryFiles(), InlineWorker())
    await case.saver.start()
    yield case
    await case.saver.stop()


async def test_a_change_is_saved_within_the_interval(case: Case) -> None:
    case.table.commit("g", "T", 0, 7)
    await case.clock.run_for(4999)
    assert case.saved() == -1
    await case.clock.run_for(1)
    assert case.saved() == 7
    assert not case.table.changed


async def test_who_waits_is_called_when_the_change_is_on_disk(case: Case) -> None:
    heard: list[tuple[bool, int]] = []
    case.table.commit("g", "T", 0, 7)
    case.saver.when_saved(lambda saved: heard.append((saved, case.saved())))
    await case.clock.settle()
    assert heard == [(True, 7)]


async def test_a_change_made_during_a_save_is_saved_by_the_next_one() -> None:
    worker = HandWorker()
    case = Case(MemoryFiles(), worker)
    await case.saver.start()
    heard: list[int] = []
    case.table.commit("g", "T", 0, 1)
    case.saver.when_saved(lambda saved: heard.append(case.saved()))
    case.table.commit("g", "T", 0, 2)
    case.saver.when_saved(lambda saved: heard.append(case.saved()))
    worker.run_all()
    await case.clock.settle()
    worker.run_all()
    await case.clock.settle()
    assert heard == [1, 2]
    await case.saver.stop()


async def test_a_stop_saves_what_is_left(case: Case) -> None:
    case.table.commit("g", "T", 0, 7)
    await case.saver.stop()
    assert case.saved() == 7


async def test_a_save_that_fails_is_told_and_tried_again() -> None:
    files = FaultyFiles(MemoryFiles(), FaultPlan([Fault("write_bytes", "consumerOffset", times=1)]))
    case = Case(files, InlineWorker())
    await case.saver.start()
    heard: list[bool] = []
    case.table.commit("g", "T", 0, 7)
    case.saver.when_saved(heard.append)
    await case.clock.settle()
    assert heard == [False]
    await case.clock.run_for(5000)
    assert case.saved() == 7
    await case.saver.stop()


async def test_a_table_that_cannot_say_its_text_costs_neither_waiters_nor_other_tables() -> None:
    case = Case(MemoryFiles(), InlineWorker())
    other = OffsetTable(PATH.with_name("other.json"), case.files, case.clock)
    saver = TableSaver(case.files, case.clock, case.worker, interval_ms=5000)
    saver.add(case.table, other)
    mistakes = [KeyError("a mistake")]
    real = case.table.text_parts

    def text_parts() -> Iterator[str]:
        if mistakes:
            raise mistakes.pop()
        return real()

    case.table.text_parts = text_parts  # type: ignore[method-assign]
    case.table.changed = other.changed = True
    told: list[object] = []

    def fail(_saved: bool) -> None:
        raise ValueError("a mistake")

    async with saver:
        saver.when_saved(told.append)
        assert told == [False]
        assert (case.table.changed, other.changed) == (True, False)
        assert not saver.health.is_green
        saver._waiting.append(fail)
        saver.when_saved(told.append)
        assert told == [False, True]
        assert saver.health.is_green
