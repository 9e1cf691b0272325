from __future__ import annotations

import json
from collections import defaultdict

import pytest

from demo.flights import events, in_departure_order, read, right_answers


def test_the_package_holds_the_flights_the_demo_speaks_of() -> None:
    answers = right_answers(in_departure_order())
    assert answers.flights == 336_776
    assert answers.by_carrier.total() == 336_776
    assert len(read("airports.csv")) == 1458


def test_an_event_is_the_row_with_its_carrier_as_tag_and_its_aircraft_as_key() -> None:
    flights = in_departure_order()[:2000]
    queues: defaultdict[str, set[int]] = defaultdict(set)
    for (_, row), (queue, message) in zip(flights.iterrows(), events(flights, 8), strict=True):
        event = json.loads(message.body)
        assert set(event) == set(flights.columns)
        assert (message.topic, message.tags) == ("flights", row.carrier)
        assert message.keys == (None if row.tailnum != row.tailnum else row.tailnum)
        assert event["dep_delay"] == (None if row.dep_delay != row.dep_delay else row.dep_delay)
        assert isinstance(event["dep_delay"], int | None)
        assert 0 <= queue < 8
        if message.keys:
            queues[message.keys].add(queue)
    assert all(len(found) == 1 for found in queues.values())
    assert len({queue for found in queues.values() for queue in found}) == 8


def test_flights_come_in_the_order_of_their_scheduled_departure() -> None:
    flights = in_departure_order()
    announced = flights.time_hour + flights.minute.map("{:02d}".format)
    assert announced.is_monotonic_increasing


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.flights.find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="make demo"):
        read("airports.csv")
