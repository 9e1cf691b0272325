"""What is kept of the transactions that brokers list."""

from __future__ import annotations

from rocketlake.admin.messages.transactions import OpenTransactions
from rocketlake.protocol.bodies.transaction import HalfMessage


def half(name: int, born: int) -> HalfMessage:
    return HalfMessage(
        name=name, id="", transaction="", topic="T", group="g", born=born, stored=born, checked=0, producers=0
    )


def test_the_oldest_are_kept_and_of_equal_ones_the_first() -> None:
    found = OpenTransactions(3)
    for name, born in enumerate((500, 100, 100, 100, 100, 900, 50)):
        found.take("b", half(name, born))
    assert [each.name for _, each in found.oldest()] == [6, 1, 2]
    assert found.total == 7


def test_one_that_comes_twice_counts_once_and_nameless_ones_count_each() -> None:
    found = OpenTransactions(10)
    for broker, name in (("a", 0), ("a", 0), ("b", 0), ("a", -1), ("a", -1)):
        found.take(broker, half(name, 1))
    assert (found.total, sorted(found.counts)) == (4, [("g", "a"), ("g", "b")])
