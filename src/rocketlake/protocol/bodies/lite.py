"""Bodies of lite topics: changes of what clients subscribe to.

Owns        their shape.
Must not know   what becomes of a subscription.
"""

from __future__ import annotations

from enum import Enum

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry

__all__ = ["LiteAction", "LiteOffset", "LiteOffsetKind", "LiteSubscription", "LiteSubscriptionBody"]


class LiteAction(Enum):
    """How a set of lite topics changes. COMPLETE_ADD: it is all of them."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class LiteOffsetKind(Enum):
    """What the value of a `LiteOffset` means."""

    POLICY = "POLICY"
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    TIMESTAMP = "TIMESTAMP"


class LiteOffset(Entry, kw_only=True):
    """Where a group begins. POLICY 0: where it was, 1: first message, 2: behind the last one."""

    type: LiteOffsetKind = LiteOffsetKind.POLICY
    value: int = 0


class LiteSubscription(Entry, kw_only=True):
    """One change of one client."""

    action: LiteAction
    client_id: str = ""
    group: str = ""
    topic: str = ""
    lite_topic_set: list[str] = field(default_factory=list)
    offset_option: LiteOffset | None = None
    version: int = 0


class LiteSubscriptionBody(Body, kw_only=True):
    """LITE_SUBSCRIPTION_CTL."""

    subscription_set: list[LiteSubscription] = field(default_factory=list)
