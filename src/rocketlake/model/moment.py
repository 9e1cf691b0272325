"""Points in time as people read and write them: ISO-8601, milliseconds since 1970, `10m` for ten minutes ago.

Owns        reading one such text, writing one with its zone.
Must not know   the options, the clock.

Rule: a time without a zone is UTC, wherever it is read. What is written has its zone and is read as the same time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketlake.base.errors import UsageError

__all__ = ["AGO", "HINT", "is_ago", "moment_text", "parse_length", "parse_time"]

HINT = "epoch milliseconds like 1735689600000, or ISO-8601 like 2025-01-01T00:00:00Z (without a zone it is UTC)"
AGO = "10m or -10m for ten minutes ago (s, m, h or d)"
_AGO = re.compile(r"-?[0-9]{1,9}[smhd]")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX = 253_402_300_799_999  # the last millisecond of year 9999


def parse_time(option: str, value: Any, *, now_ms: int | None = None) -> int:
    """Epoch milliseconds. With `now_ms` a length of time is read, too: so long ago.

    UsageError names the option, the value and the forms.
    """
    milliseconds = _milliseconds(value)
    if milliseconds is None and now_ms is not None and is_ago(value):
        milliseconds = now_ms - _length_ms(value)
    if milliseconds is None or not 0 <= milliseconds <= _MS_MAX:
        hint = HINT if now_ms is None else f"{HINT}, or {AGO}"
        raise UsageError(f"option '{option}' holds time {value!r}", hint=hint)
    return milliseconds


def parse_length(option: str, value: str) -> int:
    """Milliseconds of a length of time like `10m`. UsageError names the option, the value and the forms."""
    if not is_ago(value) or "-" in value:
        raise UsageError(f"option '{option}' holds length of time {value!r}", hint="write 90s, 10m, 1h or 2d")
    return _length_ms(value)


def _length_ms(text: str) -> int:
    number, unit = text.strip(" -")[:-1], text.strip()[-1]
    return int(number) * _UNIT_MS[unit]


def is_ago(text: Any) -> bool:
    """True for a length of time, `10m` or `-1h`."""
    return isinstance(text, str) and _AGO.fullmatch(text.strip()) is not None


def moment_text(ms: int, separator: str = " ") -> str:
    """The time here, with milliseconds and its zone: `parse_time` reads it."""
    there = datetime.fromtimestamp(ms // 1000, tz=UTC).replace(microsecond=ms % 1000 * 1000)
    return there.astimezone().isoformat(separator, "milliseconds")


def _milliseconds(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"[0-9]{1,15}", text):
        # A year alone, or a day without dashes, would silently mean a moment in 1970.
        return int(text) if len(text) > 8 or text == "0" else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # Rounded up: "at or after this moment" must not include messages of a part of a millisecond before.
    return -(-((moment - _EPOCH) // timedelta(microseconds=1)) // 1000)
