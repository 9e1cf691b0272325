"""Version numbers of peers, and the behaviour that each of them changes.

Owns        the ordinals that travel in every command header.
Must not know   the askers.

A version is the ordinal in Java's version enum. A release 4.y.z is 213 + 20*y + 2*z, a release 5.y.z is
413 + 20*y + 2*z; the SNAPSHOT before it is one less. Source: docs/internals/wire.md, "Versions".
"""

from __future__ import annotations

from typing import Final

V3_0_7_SNAPSHOT: Final = 28
V3_0_11: Final = 37
V3_1_8_SNAPSHOT: Final = 62
V3_4_9: Final = 121
V4_0_0: Final = 213
V4_1_0_SNAPSHOT: Final = 232
V4_9_3: Final = 399
V4_9_4: Final = 401
V5_0_0: Final = 413
V5_3_1: Final = 475
V5_3_3: Final = 479
HIGHER_VERSION: Final = 612

OUR_VERSION: Final = V5_3_3
"""The Apache release whose behaviour we follow; peers choose their dialect by it."""

STANDARD_JSON_SINCE: Final = V4_9_4
"""GET_ROUTEINFO_BY_TOPIC: from here on a client wants quoted numeric keys."""
REGISTER_BODY_SINCE: Final = V3_0_11
"""REGISTER_BROKER: from here on the body is a RegisterBrokerBody."""
REGISTER_MAPPINGS_SINCE: Final = V5_0_0
"""REGISTER_BROKER, compressed: from here on the body ends with the queue mappings."""
MAX_RECONSUME_SINCE: Final = V3_4_9
"""Send to %RETRY% and send-back: from here on the header's maxReconsumeTimes overrides the group's."""
RUNNING_INFO_SINCE: Final = V3_1_8_SNAPSHOT
"""GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY need a consumer at least this new."""
RESET_PUSH_SINCE: Final = V3_0_7_SNAPSHOT
"""The reset-offset and consumer-status pushes need a consumer at least this new."""
GO_AWAY_AFTER: Final = V5_3_1
"""A client newer than this understands GO_AWAY (1500) of a server that is shutting down."""


def version_name(version: int) -> str:
    """`V5_3_3` for 479, `V4_9_4_SNAPSHOT` for 400, `V<n>` before 4.0.0, `HIGHER_VERSION` above all we know."""
    if version >= HIGHER_VERSION:
        return "HIGHER_VERSION"
    if version < V4_0_0 - 1:
        return f"V{version}"
    snapshot = version % 2 == 0
    release = version + 1 if snapshot else version
    major, rest = (5, release - V5_0_0) if release >= V5_0_0 else (4, release - V4_0_0)
    minor, patch = divmod(rest, 20)
    return f"V{major}_{minor}_{patch // 2}" + ("_SNAPSHOT" if snapshot else "")
