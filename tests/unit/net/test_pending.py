"""Waiting requests: answered, late, lost."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.net.pending import InvokeTimeout, Pending
from rocketlake.protocol.command import Command


def waiting(pending: Pending, opaque: int, deadline: float) -> asyncio.Future[Command]:
    future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    pending.add(opaque, deadline, future)
    return future


async def test_an_answer_goes_to_who_asked() -> None:
    pending = Pending()
    futures = [waiting(pending, opaque, 1.0) for opaque in range(3)]
    assert pending.resolve(Command(7, opaque=1))
    assert (await futures[1]).code == 7
    assert not futures[0].done()
    assert len(pending) == 2


async def test_a_late_answer_is_dropped() -> None:
    pending = Pending()
    future = waiting(pending, 1, 1.0)
    pending.sweep(1.0)
    with pytest.raises(InvokeTimeout):
        await future
    assert not pending.resolve(Command(0, opaque=1))
    assert not pending.resolve(Command(0, opaque=99))


async def test_only_what_is_due_times_out() -> None:
    pending = Pending()
    soon, late = waiting(pending, 1, 1.0), waiting(pending, 2, 2.0)
    pending.sweep(0.99)
    assert not soon.done()
    pending.sweep(1.5)
    assert isinstance(soon.exception(), InvokeTimeout)
    assert not late.done()


async def test_a_lost_link_fails_everyone_with_the_reason() -> None:
    pending = Pending()
    futures = [waiting(pending, opaque, 1.0) for opaque in range(3)]
    futures[2].cancel()
    pending.fail_all("link to a closed")
    for future in futures[:2]:
        with pytest.raises(LinkError, match="link to a closed"):
            await future
    assert len(pending) == 0


async def test_deadlines_of_answered_requests_do_not_pile_up() -> None:
    pending = Pending()
    for opaque in range(10_000):
        future = waiting(pending, opaque, 100.0)
        pending.resolve(Command(0, opaque=opaque))
        assert future.done()
    assert len(pending._deadlines) < 2000
