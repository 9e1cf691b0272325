"""What a client may ask for.

Owns        the limits of messages and times, with the defaults of Apache's proxy.
Must not know   where they are set.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2.messages import Code

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes of UTF-8; 0 stands for no limit."""

    body_bytes_max: int = 4 << 20
    user_properties_max: int = 128
    user_property_bytes_max: int = 16 << 10
    message_group_bytes_max: int = 63
    id_bytes_max: int = 4 << 10
    """Of message id, trace context and born host together: a broker cuts off a link that brings a large header."""
    lite_topic_bytes_max: int = 64
    delay_ms_max: int = 24 * 3600 * 1000
    recovery_s_max: int = 3600
    invisible_ms_max: int = 12 * 3600 * 1000
    received_invisible_ms_min: int = 10 * 1000

    def check_invisible(self, milliseconds: int, *, is_new: bool) -> None:
        """Refused: ILLEGAL_INVISIBLE_TIME. `is_new`: of a receive, not of a change."""
        least = self.received_invisible_ms_min if is_new else 0
        most = self.invisible_ms_max or milliseconds
        if not least <= milliseconds <= most:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"the invisible time {milliseconds} ms is not between {least} and {most}",
                hint="change the invisible duration of the request",
            )
