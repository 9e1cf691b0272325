from __future__ import annotations

import logging

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.health import Health


def test_a_trouble_has_a_reason_and_a_beginning_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(start_ms=1000)
    health = Health(clock)
    assert health.is_green
    with caplog.at_level(logging.WARNING):
        health.set("disk", "full")
        clock.advance(5000)
        health.set("disk", "fuller")
        assert not health.is_green
        assert [(name, each.reason, each.since_ms) for name, each in health.troubles.items()] == [
            ("disk", "fuller", 1000)
        ]
        health.set("tables", "refused")
        health.set("disk", "")
        assert "disk works again after 5 s; still red: tables" in caplog.text
        health.set("tables", "")
    assert health.is_green
    assert "health is red: disk: full" in caplog.text
    assert "tables works again after 0 s; all is green" in caplog.text


def test_what_was_never_wrong_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        Health().set("disk", "")
    assert not caplog.text


def test_a_reason_that_changes_all_the_time_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(ManualClock())
    for percent in range(100):
        health.set("disk", f"{percent} % used")
    assert len(caplog.records) == 2
    assert health.troubles["disk"].reason == "99 % used"
