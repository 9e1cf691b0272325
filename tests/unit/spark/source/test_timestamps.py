from __future__ import annotations

from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.source.timestamps import parse_time


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        (1_735_689_600_000, 1_735_689_600_000),
        ("1735689600000", 1_735_689_600_000),
        (" 1735689600000 ", 1_735_689_600_000),
        ("0", 0),
        ("2025-01-01", 1_735_689_600_000),
        ("2025-01-01T00:00:00", 1_735_689_600_000),
        ("2025-01-01T00:00:00Z", 1_735_689_600_000),
        ("2025-01-01T02:00:00+02:00", 1_735_689_600_000),
        ("2025-01-01 00:00:00.001", 1_735_689_600_001),
        ("2025-01-01T00:00:00.000001Z", 1_735_689_600_001),
    ],
)
def test_epoch_milliseconds_and_iso_8601_are_read(text: Any, milliseconds: int) -> None:
    assert parse_time("startingTimestamp", text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "2025", "20250101", "-5", -5, True, None, 1.5, "noon", "9" * 15, 10**15, "1969-01-01"]
)
def test_what_is_no_time_or_may_be_a_mistake_is_refused(text: Any) -> None:
    with pytest.raises(UsageError, match="startingTimestamp"):
        parse_time("startingTimestamp", text)
