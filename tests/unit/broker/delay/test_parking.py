from __future__ import annotations

import pytest

from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import delay_level, park_if_delayed, real_target
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage

LEVELS = DelayLevels("1s 5s 10s")


def message() -> PutMessage:
    return PutMessage("orders", 3, b"body")


def test_a_message_without_delay_stays_where_it_is() -> None:
    parked, properties = message(), {"TAGS": "A"}
    park_if_delayed(parked, properties, LEVELS)
    assert (parked.topic, parked.queue_id, properties) == ("orders", 3, {"TAGS": "A"})


def test_a_delayed_message_goes_to_the_queue_of_its_level_and_remembers_its_target() -> None:
    parked, properties = message(), {"DELAY": "2"}
    park_if_delayed(parked, properties, LEVELS)
    assert (parked.topic, parked.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert properties == {"DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert real_target(properties) == ("orders", 3)


def test_a_level_too_high_counts_as_the_highest() -> None:
    parked, properties = message(), {"DELAY": "77"}
    park_if_delayed(parked, properties, LEVELS)
    assert (parked.queue_id, properties["DELAY"]) == (2, "3")


def test_a_level_makes_timer_properties_void() -> None:
    parked, properties = message(), {"DELAY": "1", "TIMER_DELAY_SEC": "9", "TIMER_DELIVER_MS": "1"}
    park_if_delayed(parked, properties, LEVELS)
    assert set(properties) == {"DELAY", "REAL_TOPIC", "REAL_QID"}


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_timer_message_is_refused_not_delivered_early(name: str) -> None:
    with pytest.raises(RemoteError, match=name) as caught:
        park_if_delayed(message(), {name: "1000", "DELAY": "0"}, LEVELS)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_a_message_that_went_through_a_timer_wheel_is_one_like_any_other() -> None:
    parked, properties = message(), {"TIMER_DELIVER_MS": "1000", "TIMER_OUT_MS": "1000"}
    park_if_delayed(parked, properties, LEVELS)
    assert (parked.topic, parked.queue_id) == ("orders", 3)


@pytest.mark.parametrize(("text", "level"), [(None, 0), ("3", 3), ("-1", -1), ("x", 0), ("", 0)])
def test_what_is_no_number_is_no_delay(text: str | None, level: int) -> None:
    assert delay_level({} if text is None else {"DELAY": text}) == level


@pytest.mark.parametrize("properties", [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "-1"}])
def test_a_parked_message_without_a_target_has_none(properties: dict[str, str]) -> None:
    assert real_target(properties) is None
