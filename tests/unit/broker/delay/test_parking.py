from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import Parking, TimerRules, delay_level, real_target
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage

CLOCK = ManualClock(100_500)
DAYS = 24 * 3600 * 1000


def park(message: PutMessage, properties: dict[str, str], rules: TimerRules = TimerRules()) -> None:  # noqa: B008
    Parking(DelayLevels("1s 5s 10s"), rules, CLOCK).park(message, properties)


def message() -> PutMessage:
    return PutMessage("orders", 3, b"body")


def test_a_message_without_delay_stays_where_it_is() -> None:
    parked, properties = message(), {"TAGS": "A"}
    park(parked, properties)
    assert (parked.topic, parked.queue_id, properties) == ("orders", 3, {"TAGS": "A"})


def test_a_delayed_message_goes_to_the_queue_of_its_level_and_remembers_its_target() -> None:
    parked, properties = message(), {"DELAY": "2"}
    park(parked, properties)
    assert (parked.topic, parked.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert properties == {"DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert real_target(properties) == ("orders", 3)


def test_a_level_too_high_counts_as_the_highest() -> None:
    parked, properties = message(), {"DELAY": "77"}
    park(parked, properties)
    assert (parked.queue_id, properties["DELAY"]) == (2, "3")


def test_a_level_makes_timer_properties_void() -> None:
    parked, properties = message(), {"DELAY": "1", "TIMER_DELAY_SEC": "9", "TIMER_DELIVER_MS": "1"}
    park(parked, properties)
    assert set(properties) == {"DELAY", "REAL_TOPIC", "REAL_QID"}


NAMES = ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"]


@pytest.mark.parametrize(
    ("asked", "tick"),
    [
        ({"TIMER_DELAY_SEC": "2"}, 102_000),
        ({"TIMER_DELAY_MS": "1500"}, 101_000),  # due at 102,000: the tick before it is over then
        ({"TIMER_DELIVER_MS": "102001"}, 102_000),
        ({"TIMER_DELIVER_MS": "102000"}, 101_000),
        ({"TIMER_DELIVER_MS": "100501"}, 100_000),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "9", "TIMER_DELAY_SEC": "2"}, 102_000),
        ({"TIMER_DELAY_SEC": "2", "DELAY": "0"}, 102_000),
    ],
)
def test_a_message_for_a_time_waits_for_its_tick_and_remembers_its_target(asked: dict[str, str], tick: int) -> None:
    parked, properties = message(), dict(asked)
    park(parked, properties)
    assert (parked.topic, parked.queue_id) == ("rmq_sys_wheel_timer", 0)
    assert properties == {**asked, "TIMER_OUT_MS": str(tick), "REAL_TOPIC": "orders", "REAL_QID": "3"}


@pytest.mark.parametrize("asked", [{"TIMER_DELIVER_MS": "100500"}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-5"}])
def test_a_time_that_is_over_delays_nothing(asked: dict[str, str]) -> None:
    parked = message()
    park(parked, dict(asked))
    assert (parked.topic, parked.queue_id) == ("orders", 3)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_timer_a_message_for_a_time_is_refused_not_delivered_early(name: str) -> None:
    with pytest.raises(RemoteError, match=name) as caught:
        park(message(), {name: "1000", "DELAY": "0"}, TimerRules(is_enabled=False))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "asked",
    [
        *[{name: text} for name in NAMES for text in ("", "x", "1.5", "\u0663", "9" * 19)],
        {"TIMER_DELAY_MS": str(3 * DAYS + 1)},
        {"TIMER_DELAY_SEC": str(10**17)},
        {"TIMER_DELIVER_MS": "100", "TIMER_DEL_UNIQKEY": "k"},
    ],
)
def test_a_time_that_no_timer_can_keep_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(RemoteError) as caught:
        park(message(), dict(asked))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_message_that_went_through_a_timer_wheel_is_one_like_any_other() -> None:
    parked, properties = message(), {"TIMER_DELIVER_MS": "1000", "TIMER_OUT_MS": "1000"}
    park(parked, properties)
    assert (parked.topic, parked.queue_id) == ("orders", 3)


@pytest.mark.parametrize(("text", "level"), [(None, 0), ("3", 3), ("-1", -1), ("x", 0), ("", 0)])
def test_what_is_no_number_is_no_delay(text: str | None, level: int) -> None:
    assert delay_level({} if text is None else {"DELAY": text}) == level


@pytest.mark.parametrize("properties", [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "-1"}])
def test_a_parked_message_without_a_target_has_none(properties: dict[str, str]) -> None:
    assert real_target(properties) is None
