"""Points in time as people write them in options: epoch milliseconds or ISO-8601.

Owns        reading one such text.
Must not know   the options, brokers.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketlake.base.errors import UsageError

__all__ = ["HINT", "parse_time"]

HINT = "epoch milliseconds like 1735689600000, or ISO-8601 like 2025-01-01T00:00:00Z (without a zone it is UTC)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX = 253_402_300_799_999  # the last millisecond of year 9999


def parse_time(option: str, value: Any) -> int:
    """Epoch milliseconds. UsageError names the option, the value and the forms."""
    milliseconds = _milliseconds(value)
    if milliseconds is None or not 0 <= milliseconds <= _MS_MAX:
        raise UsageError(f"option '{option}' holds time {value!r}", hint=HINT)
    return milliseconds


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
