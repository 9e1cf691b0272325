"""The register in memory keeps the promises of the interface, and its faults are those of a real one."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.controller.registers.memory import Fault, MemoryRegister, SharedValues
from rocketlake.controller.registers.register import ABSENT, Conflict, OutcomeUnknown, Swapped


async def test_a_swap_of_the_right_revision_is_made_with_all_keys_beside_it() -> None:
    register = MemoryRegister()
    assert await register.swap("g/a", ABSENT, b"1", {"h/a/1": b"why", "h/a/0": None}) == Swapped(1)
    assert await register.read("") == {"g/a": (b"1", 1), "h/a/1": (b"why", 1)}
    assert await register.swap("g/a", 1, b"2", {"h/a/1": None}) == Swapped(2)
    assert await register.read("g/") == {"g/a": (b"2", 2)}
    assert await register.read("h/") == {}


async def test_a_swap_of_another_revision_changes_nothing() -> None:
    register = MemoryRegister()
    assert await register.swap("a", 7, b"1") == Conflict(None, ABSENT)
    await register.swap("a", ABSENT, b"1")
    assert await register.swap("a", ABSENT, b"2", {"b": b"2"}) == Conflict(b"1", 1)
    assert await register.read("") == {"a": (b"1", 1)}


async def test_watches_are_called_with_the_keys_of_their_prefix() -> None:
    shared = SharedValues()
    first, second = MemoryRegister(shared), MemoryRegister(shared)
    seen: list[set[str]] = []
    stop = second.watch("g/", lambda keys: seen.append(set(keys)))
    await first.swap("g/a", ABSENT, b"1", {"h/a": b""})
    await first.swap("h/b", ABSENT, b"1")
    assert seen == [{"g/a"}]
    second.misses_changes = True
    await first.swap("g/b", ABSENT, b"1")
    second.misses_changes = False
    stop()
    await first.swap("g/c", ABSENT, b"1")
    assert seen == [{"g/a"}]


@pytest.mark.parametrize(
    ("fault", "value"),
    [(Fault.MADE_UNKNOWN, b"new"), (Fault.LOST_UNKNOWN, b"old"), (Fault.LATE_UNKNOWN, b"old")],
)
async def test_an_unknown_outcome_may_be_either(fault: Fault, value: bytes) -> None:
    register = MemoryRegister()
    await register.swap("a", ABSENT, b"old")
    register.faults.append(fault)
    with pytest.raises(OutcomeUnknown):
        await register.swap("a", 1, b"new")
    assert (await register.read("a"))["a"][0] == value


async def test_a_late_swap_comes_later_or_too_late() -> None:
    register = MemoryRegister()
    await register.swap("a", ABSENT, b"0")
    register.faults.extend([Fault.LATE_UNKNOWN, Fault.LATE_UNKNOWN])
    for value in (b"1", b"2"):
        with pytest.raises(OutcomeUnknown):
            await register.swap("a", 1, value)
    register.shared.deliver_late()
    register.shared.deliver_late()
    assert await register.read("a") == {"a": (b"1", 2)}


async def test_a_conflict_and_a_refusal_change_nothing() -> None:
    register = MemoryRegister()
    await register.swap("a", ABSENT, b"0")
    register.faults.extend([Fault.CONFLICT, Fault.REFUSED])
    assert await register.swap("a", 1, b"1") == Conflict(b"0", 2)
    with pytest.raises(LinkError) as refused:
        await register.swap("a", 2, b"1")
    assert not isinstance(refused.value, OutcomeUnknown)
    assert await register.read("a") == {"a": (b"0", 2)}


async def test_a_link_cut_under_way_leaves_the_outcome_unknown() -> None:
    clock = ManualClock()
    register = MemoryRegister(clock=clock)
    register.delay_seconds = 0.1
    register.shared.watches.add("a", lambda _keys: setattr(register, "is_cut", True))

    swap = asyncio.ensure_future(register.swap("a", ABSENT, b"1"))
    await clock.run_for(200)
    with pytest.raises(OutcomeUnknown):
        await swap
    assert register.shared.values == {"a": (b"1", 1)}
    with pytest.raises(LinkError):
        await register.read("a")
