from __future__ import annotations

import logging

from rocketlake.base.clock import ManualClock
from rocketlake.base.logs import RareWarnings, get_logger

log = get_logger("rocketlake.test")


def test_a_warning_repeats_only_after_the_interval_and_counts_those_left_out(caplog):
    clock = ManualClock()
    warnings = RareWarnings(log, interval_seconds=10, clock=clock)
    with caplog.at_level(logging.WARNING):
        assert warnings.warn("busy", "broker %s busy", "b")
        assert not warnings.warn("busy", "broker %s busy", "b")
        assert not warnings.warn("busy", "broker %s busy", "b")
        assert warnings.warn("other", "other")
        clock.advance(10_000)
        assert warnings.warn("busy", "broker %s busy", "b")
    assert [record.getMessage() for record in caplog.records] == [
        "broker b busy",
        "other",
        "broker b busy (and 2 more like this)",
    ]


def test_keys_of_peers_do_not_grow_without_bound():
    warnings = RareWarnings(log, clock=ManualClock())
    logging.disable(logging.WARNING)
    try:
        for number in range(5000):
            warnings.warn(f"peer {number}", "x")
    finally:
        logging.disable(logging.NOTSET)
    assert len(warnings._said) <= 1024
