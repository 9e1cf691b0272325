"""Rates of a consumer, by topic: of the last minute, failed messages of the last hour."""

from __future__ import annotations

import pytest

from rocketlake.client.consumer.rates import SAMPLE_SECONDS, Rates
from rocketlake.protocol.bodies.client import ConsumeStatus


def test_rates_run_from_the_start_to_now() -> None:
    rates = Rates()
    rates.begin(100.0)
    rates.pulled("T", 0.25, 30)
    rates.pulled("T", 0.75, 10)
    rates.pulled("T", 15.0, 0)  # it only waited
    rates.consumed("T", 0.3, 10, 10)
    rates.consumed("T", 0.1, 10, 4)
    assert rates.status(["T"], 104.0)["T"] == ConsumeStatus(
        pull_rt=pytest.approx(500.0),
        pull_tps=10.0,
        consume_rt=pytest.approx(200.0),
        consume_ok_tps=3.5,
        consume_failed_tps=1.5,
        consume_failed_msgs=6,
    )


def test_a_topic_without_messages_and_a_moment_without_time_have_zeros() -> None:
    rates = Rates()
    rates.begin(100.0)
    rates.consumed("T", 0.1, 1, 1)
    assert rates.status(["U"], 100.0) == {"U": ConsumeStatus()}
    assert rates.status(["T"], 100.0)["T"].consume_ok_tps == 0.0


def test_what_is_older_than_a_minute_is_in_no_rate_and_older_than_an_hour_in_no_count() -> None:
    rates, now = Rates(), 0.0
    rates.begin(now)
    rates.consumed("T", 0.1, 60, 0)
    for _ in range(6):
        now += SAMPLE_SECONDS
        rates.sample(now)
    assert rates.status(["T"], now)["T"].consume_failed_tps == 0.0
    assert rates.status(["T"], now)["T"].consume_failed_msgs == 60
    for _ in range(360):
        now += SAMPLE_SECONDS
        rates.sample(now)
    assert rates.status(["T"], now)["T"].consume_failed_msgs == 0
