"""A recorded history of swaps on one key, and whether it could be that of one register that changes at moments.

Every value is written by one swap only, so the states of the key form one chain, from its end back to the first. A
history is right if

- each swap that was reported as made is in the chain, behind the state that it compared with; none is in it that was
  reported as not made; one of unknown outcome may be in it;
- what ended before another began also stands before it in the chain: then an order of moments exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Swapping", "Wrong", "check"]

FOREVER = float("inf")
FIRST = b""
"""Stands for the value of a key that is not there."""


class Wrong(AssertionError):
    """No register has this history."""


@dataclass
class Swapping:
    """One call: from `value` `base` to `value`; times are of one clock."""

    start: float
    base: bytes
    value: bytes
    end: float = FOREVER
    made: bool | None = None
    """None: unknown."""
    found: bytes | None = None
    """The value that a conflict told."""


def check(history: Iterable[Swapping], last: bytes) -> int:
    """Raises Wrong. `last` is the value at the end, when no swap is under way; returns the length of the chain."""
    history = list(history)
    writers = {each.value: each for each in history}
    if len(writers) != len(history):
        raise Wrong("two swaps have one value")
    chain = [last]
    while chain[-1] != FIRST:
        writer = writers.get(chain[-1])
        if writer is None or len(chain) > len(history):
            raise Wrong(f"nobody wrote {chain[-1]!r}, or the chain is a ring")
        chain.append(writer.base)
    place = {value: number for number, value in enumerate(reversed(chain))}
    ranked = [ranks for each in history if (ranks := _rank(each, place)) is not None]
    _check_order(ranked)
    return len(chain) - 1


def _rank(each: Swapping, place: dict[bytes, int]) -> tuple[float, float, int, Swapping] | None:
    """Start, end and place of a call; None if it shows nothing. Changes have even places, looks odd ones."""
    if each.value in place and each.made is False:
        raise Wrong(f"reported as not made, and was: {each}")
    if each.value not in place and each.made:
        raise Wrong(f"reported as made, and was not: {each}")
    if each.value in place:
        return (each.start, each.end if each.made else FOREVER, 2 * place[each.value], each)
    if each.found is None:
        return None
    if each.found == each.base:
        raise Wrong(f"a conflict with the very state that it compared with: {each}")
    if each.found not in place:
        raise Wrong(f"a conflict with what never was: {each}")
    return (each.start, each.end, 2 * place[each.found] + 1, each)


def _check_order(ranked: list[tuple[float, float, int, Swapping]]) -> None:
    ended = sorted(ranked, key=lambda each: each[1])
    passed, highest = 0, -1
    before: Swapping | None = None
    for start, _, place, each in sorted(ranked, key=lambda each: each[0]):
        while passed < len(ended) and ended[passed][1] < start:
            if ended[passed][2] > highest:
                highest, before = ended[passed][2], ended[passed][3]
            passed += 1
        if place < highest:
            raise Wrong(f"{each} stands before {before}, which had ended when it began")
