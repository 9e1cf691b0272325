"""The standing of half messages, and which place stands for which transaction."""

from __future__ import annotations

from rocketlake.broker.transaction import ledger as ledgers
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset


def half(offset: int, name: int | None = None) -> StoredMessage:
    properties = {} if name is None else {"TRAN_PREPARED_QUEUE_OFFSET": str(name)}
    return StoredMessage("RMQ_SYS_TRANS_HALF_TOPIC", b"", queue_offset=offset, properties=properties)


def test_a_transaction_is_ended_by_any_of_its_places() -> None:
    ledger = HalfLedger()
    ledger.move(half(0), 5)
    ledger.move(half(5, 0), 9)
    assert ledger.places(half(5, 0)) == [0, 5, 9]
    assert (ledger.stands(half(9, 0)), ledger.stands(half(5, 0)), ledger.stands(half(0))) == (True, False, False)
    assert ledger.standing(half(0)) is Standing.OPEN
    assert ledger.end(half(0), Standing.COMMITTED) == [0, 5, 9]
    assert {ledger.standing(place) for place in (half(0), half(5, 0), half(9, 0))} == {Standing.COMMITTED}


def test_a_copy_that_nobody_knows_is_no_transaction_of_its_own() -> None:
    """Its put failed behind the append; the next walk put another one back."""
    ledger = HalfLedger()
    ledger.move(half(0), 2)
    assert not ledger.stands(half(1, 0))
    ledger.end(half(2, 0), Standing.ROLLED_BACK)
    assert ledger.standing(half(1, 0)) is Standing.ENDED


def test_positions_move_over_what_is_done_with() -> None:
    ledger = HalfLedger()
    ledger.begin(10, 3)
    ledger.named(3, [10, 12])
    ledger.named(4, [11])
    ledger.end(half(10), Standing.COMMITTED)
    ledger.end(half(12), Standing.ROLLED_BACK)
    ledger.advance()
    assert (ledger.position, ledger.op_position) == (11, 3)
    assert (ledger.next_open(11), ledger.next_open(12), ledger.next_open(99)) == (11, 13, 99)
    ledger.end(half(11), Standing.COMMITTED)
    ledger.advance()
    assert (ledger.position, ledger.op_position) == (13, 5)
    assert (ledger.standing(half(9)), ledger.standing(half(13))) == (Standing.ENDED, Standing.OPEN)


def test_what_expired_is_passed() -> None:
    ledger = HalfLedger()
    ledger.move(half(0), 2)
    ledger.skip_to(3)
    ledger.advance()
    assert ledger.position == 3
    assert not ledger.is_open(0)


def test_little_is_kept_of_what_was_passed(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(ledgers, "_KEPT_BEHIND", 8)
    ledger = HalfLedger()
    for offset in range(100):
        ledger.end(half(offset), Standing.COMMITTED)
        ledger.advance()
    assert ledger.position == 100
    assert ledger.standing(half(95)) is Standing.COMMITTED
    assert ledger.standing(half(5)) is Standing.ENDED
    assert len(ledger._standings) <= 16


def test_a_place_stands_alone_while_it_is_open_and_no_other_place_is_of_its_transaction() -> None:
    ledger = HalfLedger()
    ledger.begin(2, 0)
    ledger.end(half(3), Standing.COMMITTED)
    ledger.move(half(4), 6)
    ledger.move(half(6, 4), 8)
    ledger.call(7, 5)
    assert [offset for offset in range(10) if ledger.stands_alone(offset)] == [2, 5, 8, 9], "8 carries a name"
    assert [ledger.end_alone(offset, Standing.COMMITTED) for offset in (2, 4, 2)] == [True, False, False]
    assert (ledger.at(2), ledger.at(4)) == (Standing.COMMITTED, Standing.PUT_BACK)


def test_open_places_are_counted_up_to_the_end() -> None:
    ledger = HalfLedger()
    ledger.begin(QueueOffset(10), QueueOffset(0))
    assert ledger.count_open(QueueOffset(10)) == 0
    ledger.mark(QueueOffset(11), Standing.COMMITTED)
    assert ledger.count_open(QueueOffset(15)) == 4
