from __future__ import annotations

import asyncio
import threading

import pytest

from rocketlake.base.errors import InternalError
from rocketlake.base.worker import HandWorker, InlineWorker, ThreadWorker

Told = list[tuple[object, object]]


def boom() -> None:
    raise OSError("broken")


async def test_calls_run_in_order_on_the_named_thread_and_results_come_back_on_the_loop() -> None:
    worker = ThreadWorker("duty")
    ran: list[str] = []
    told: list[tuple[int, str]] = []
    for number in range(5):
        worker.submit(
            lambda number=number: ran.append(threading.current_thread().name) or number,  # type: ignore[misc]
            lambda result, _error: told.append((result, threading.current_thread().name)),
        )
    await worker.close()
    assert ran == ["duty"] * 5
    assert told == [(number, threading.main_thread().name) for number in range(5)]


@pytest.mark.parametrize("worker", [ThreadWorker("duty"), InlineWorker(), HandWorker()])
async def test_an_error_is_given_to_who_asked(worker: ThreadWorker | InlineWorker | HandWorker) -> None:
    told: Told = []
    worker.submit(boom, lambda result, error: told.append((result, str(error))))
    await worker.close()
    assert told == [(None, "broken")]


async def test_close_waits_for_a_call_under_way_and_ends_the_thread() -> None:
    worker = ThreadWorker("slow-duty")
    may_end = threading.Event()
    told: Told = []
    worker.submit(may_end.wait, lambda result, error: told.append((result, error)))
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await closing
    assert told == [(True, None)]
    assert "slow-duty" not in {thread.name for thread in threading.enumerate()}


async def test_a_worker_that_was_never_asked_has_no_thread() -> None:
    before = threading.active_count()
    await ThreadWorker("idle").close()
    assert threading.active_count() == before


def test_a_hand_worker_runs_one_call_at_a_time_and_also_what_follows() -> None:
    worker = HandWorker()
    told: list[str] = []

    def first_done(_result: object, _error: object) -> None:
        told.append("first")
        worker.submit(lambda: None, lambda _result, _error: told.append("second"))

    worker.submit(lambda: None, first_done)
    assert told == []
    worker.run_one()
    assert told == ["first"]
    worker.run_all()
    assert told == ["first", "second"]


async def test_a_closed_worker_takes_no_more_work() -> None:
    for used in (False, True):
        worker = ThreadWorker("duty")
        if used:
            worker.submit(lambda: None, lambda _result, _error: None)
        await worker.close()
        with pytest.raises(InternalError, match="the worker duty is closed"):
            worker.submit(lambda: None, lambda _result, _error: None)
