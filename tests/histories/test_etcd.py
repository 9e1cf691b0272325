"""Swaps of the register in etcd keep the promises of one register in random histories; a broken one is found."""

from __future__ import annotations

import pytest

from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.controller.etcd.wire import KeyValue
from rocketlake.controller.registers.register import Conflict, OutcomeUnknown, Swap, Swapped
from tests.histories.etcd_history import History
from tests.histories.swap_history import FIRST, FOREVER, Swapping, Wrong, check
from tests.seeds import seeds

_EACH = 10


@pytest.mark.parametrize("first", seeds("swaps", short=_EACH, whole=40, each=_EACH))
def test_random_histories_of_swaps_are_those_of_one_register(first: int) -> None:
    made = 0
    for seed in range(first, first + _EACH):
        history = History(seed)
        history.run()
        made += history.made
    assert made > 20 * _EACH


class Forgetful(EtcdRegister):
    """Takes the conflict of a repeated try for the outcome of the first one."""

    async def _what_became(self, name: bytes, revision: int, value: bytes, found: KeyValue) -> Swap:
        return Conflict(found.value, found.mod_revision)


class Hasty(EtcdRegister):
    """Looks at the key as it is, and not at what was in between."""

    async def _what_became(self, name: bytes, revision: int, value: bytes, found: KeyValue) -> Swap:
        if found.value == value:
            return Swapped(found.mod_revision)
        return Conflict(found.value, found.mod_revision)


class Careless(EtcdRegister):
    """Says that a swap was not made when it only does not know."""

    async def swap(self, *args: object, **kwargs: object) -> Swap:  # type: ignore[override]
        try:
            return await super().swap(*args, **kwargs)  # type: ignore[arg-type]
        except OutcomeUnknown:
            return Conflict(None, 0)


@pytest.mark.parametrize("broken", [Forgetful, Hasty, Careless])
def test_a_broken_register_is_found(broken: type[EtcdRegister]) -> None:
    with pytest.raises(Wrong, match=r"seed \d+"):
        for seed in range(200):
            History(seed, register=broken).run()


A = Swapping(0, FIRST, b"a", 1, True)


@pytest.mark.parametrize(
    ("history", "last", "wrong"),
    [
        ([A, Swapping(2, b"a", b"b", 3, True)], b"a", "reported as made, and was not"),
        ([A, Swapping(2, b"a", b"b", 3, False)], b"b", "reported as not made, and was"),
        ([A, Swapping(2, FIRST, b"b", 3, True)], b"a", "reported as made, and was not"),
        ([A, Swapping(2, b"b", b"c", 3, True)], b"c", "nobody wrote b'b'"),
        ([A, Swapping(2, FIRST, b"b", 3, False, FIRST)], b"a", "with the very state"),
        ([A, Swapping(2, FIRST, b"b", 3, False, b"x")], b"a", "with what never was"),
        ([A, Swapping(2, b"a", b"b", 3, True), Swapping(4, FIRST, b"c", 5, False, b"a")], b"b", "stands before"),
        ([Swapping(2, FIRST, b"a", 3, True), Swapping(0, b"a", b"b", 1, True)], b"b", "stands before"),
    ],
)
def test_a_history_of_no_register_is_found(history: list[Swapping], last: bytes, wrong: str) -> None:
    with pytest.raises(Wrong, match=wrong):
        check(history, last)


@pytest.mark.parametrize(
    ("history", "last", "length"),
    [
        ([], FIRST, 0),
        ([A, Swapping(2, b"a", b"b")], b"b", 2),
        ([A, Swapping(2, b"a", b"b")], b"a", 1),
        ([A, Swapping(2, b"a", b"b", FOREVER), Swapping(9, b"a", b"c", 10, False, b"b")], b"b", 2),
        ([A, Swapping(0.5, b"a", b"b", 3, True), Swapping(0.7, FIRST, b"c", 2, False, b"a")], b"b", 2),
    ],
)
def test_a_history_of_a_register_is_right(history: list[Swapping], last: bytes, length: int) -> None:
    assert check(history, last) == length
