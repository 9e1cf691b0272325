from __future__ import annotations

import numpy as np
import pytest

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.spark.sink.exactly_once.journal import Standing, decision_queues
from rocketlake.spark.sink.exactly_once.records import (
    PLACE,
    Half,
    HalfList,
    Record,
    attempt_of,
    decode_list,
    decode_record,
    encode,
)
from tests.unit.spark.sink.fake_cluster import queues_of


def record(kind: str, attempt: str) -> Record:
    return Record(kind, "q", 7, attempt, 0)  # type: ignore[arg-type]


def decided(*records: Record) -> tuple[str | None, bool]:
    standing = Standing(0)
    for each in records:
        standing.add(each)
    return standing.decision and standing.decision.attempt, standing.is_done


def test_the_first_commit_of_an_attempt_that_was_not_aborted_before_counts() -> None:
    assert decided() == (None, False)
    assert decided(record("commit", "a"), record("commit", "b")) == ("a", False)
    assert decided(record("abort", "a"), record("commit", "a")) == (None, False)
    assert decided(record("abort", "a"), record("commit", "a"), record("commit", "b")) == ("b", False)
    assert decided(record("commit", "a"), record("abort", "a"), record("done", "b")) == ("a", True)


def test_an_attempt_is_known_by_its_lists_in_any_order() -> None:
    assert attempt_of([(1, 5), (2, 3)]) == attempt_of([(2, 3), (1, 5)]) != attempt_of([(1, 5)])


def test_what_is_written_is_read_again() -> None:
    places = np.array([(0, 0, 100, 7), (300, 1, 2**40, 8)], PLACE)
    half_list = HalfList.of("g", "A" * 24, 17, [("T", "b1"), ("U", "b2")], places)
    again = decode_list(encode(half_list), "here")
    assert (again.group, again.born_ms) == ("g", 17)
    assert list(again.halves()) == [
        Half("T", "b1", "A" * 24 + "00000000", 100, 7),
        Half("U", "b2", "A" * 24 + "0000012C", 2**40, 8),
    ]
    decision = Record("commit", "q", 7, "a", 3, 10, 9, [(1, 5)])
    assert decode_record(encode(decision), "here") == decision
    for decode in (decode_record, decode_list):
        with pytest.raises(ProtocolError, match=r"a message is no .*only the sink writes to a decision topic"):
            decode(b"something else", "here")


def test_decisions_need_one_order() -> None:
    decisions, lists = decision_queues("D", queues_of("D", 3))
    assert (decisions, lists) == (queues_of("D", 3)[0], queues_of("D", 3)[1:])
    with pytest.raises(UsageError, match=r"on several brokers: broker-a, broker-b.*--perm r --broker NAME"):
        decision_queues("D", (*queues_of("D", 2), *queues_of("D", 2, "broker-b")))
    with pytest.raises(UsageError, match="has one queue, and needs two"):
        decision_queues("D", queues_of("D", 1))
