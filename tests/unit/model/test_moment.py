from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.moment import moment_text, parse_length, parse_time

NOW_MS = 1_735_689_600_000


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


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


@pytest.mark.parametrize("text", ["10m", "-1h", "0s"])
def test_a_length_of_time_needs_a_now(text: str) -> None:
    with pytest.raises(UsageError, match="startingTimestamp"):
        parse_time("startingTimestamp", text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("-10m", 600), (" 1h ", 3600), ("-2d", 172_800), ("90s", 90), ("0s", 0)]
)
def test_a_length_of_time_is_so_long_ago(text: str, seconds: int) -> None:
    assert parse_time("--to", text, now_ms=NOW_MS) == NOW_MS - seconds * 1000


@pytest.mark.parametrize("text", ["+10m", "10", "m", "--1h", "1h30m", "10 m", "99999999d", "1.5h"])
def test_other_lengths_are_refused_and_the_forms_named(text: str) -> None:
    with pytest.raises(UsageError, match="--to") as refused:
        parse_time("--to", text, now_ms=NOW_MS)
    assert "10m" in refused.value.hint


@pytest.mark.parametrize("ms", [NOW_MS + 187, 1_720_000_000_001, 1_730_611_800_000, 1_730_615_400_000])
def test_what_is_written_is_read_as_the_same_time_in_every_zone(new_york: None, ms: int) -> None:
    assert parse_time("--to", moment_text(ms)) == parse_time("--to", moment_text(ms, "T")) == ms


def test_a_time_is_written_with_its_zone_and_read_as_utc_without(new_york: None) -> None:
    assert moment_text(NOW_MS + 187) == "2024-12-31 19:00:00.187-05:00"
    assert parse_time("--to", "2025-01-01 00:00:00.187") == NOW_MS + 187


@pytest.mark.parametrize(("text", "milliseconds"), [("90s", 90_000), ("10m", 600_000), (" 1h", 3_600_000), ("0s", 0)])
def test_a_length_of_time_is_read(text: str, milliseconds: int) -> None:
    assert parse_length("--delay", text) == milliseconds


@pytest.mark.parametrize("text", ["", "10", "-10m", "1w", "1.5h", "soon"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--delay"):
        parse_length("--delay", text)
