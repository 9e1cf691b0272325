"""Slow brokers are passed over for a time that grows with the latency."""

from __future__ import annotations

import pytest

from rocketlake.client.producer.fault_latency import FaultLatency, ban_ms


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(0, 0), (50, 0), (100, 0), (549, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10000), (15000, 30000)],
)
def test_ban_follows_rocketmqs_table(latency_ms: int, expected: int) -> None:
    assert ban_ms(latency_ms) == expected


def test_a_slow_broker_comes_back_when_its_time_is_over() -> None:
    faults = FaultLatency(enabled=True)
    faults.sent("b", 600, now=10.0)
    assert not faults.is_available("b", 11.9)
    assert faults.is_available("b", 12.0)


def test_a_later_smaller_fault_does_not_shorten_the_ban() -> None:
    faults = FaultLatency(enabled=True)
    faults.failed("b", now=10.0)
    faults.sent("b", 600, now=11.0)
    assert not faults.is_available("b", 19.9)
    assert faults.is_available("b", 20.0)


def test_switched_off_every_broker_is_available() -> None:
    faults = FaultLatency(enabled=False)
    faults.failed("b", now=10.0)
    assert faults.is_available("b", 10.0)
