"""The request of a replay, and its identity.

Owns        the request, its identity: equal requests are one replay, however often they are run.
Must not know   how messages travel.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from rocketlake.base.errors import UsageError
from rocketlake.model.names import check_topic, is_sendable_topic
from rocketlake.model.subscription import SQL92, TAG, Subscription, parse_subscription

__all__ = ["ReplayRequest"]


@dataclass(frozen=True)
class ReplayRequest:
    """Messages of `topic` stored in [from_ms, until_ms) that the filter passes go to `target`. -1: no bound."""

    topic: str
    target: str
    from_ms: int = -1
    until_ms: int = -1
    tags: str = ""
    sql92: str = ""

    def check(self) -> None:
        """Raises UsageError for a request that makes no sense."""
        for topic in (self.topic, self.target):
            check_topic(topic)
        if self.topic == self.target:
            raise UsageError(f"{self.topic} cannot be replayed into itself", hint="name another topic with --to-topic")
        if not is_sendable_topic(self.target):
            raise UsageError(f"topic {self.target} belongs to the broker", hint="name a topic of your own")
        if -1 < self.until_ms <= self.from_ms:
            raise UsageError("the replay ends before it begins", hint="give --until a later time than --from")
        if self.tags and self.sql92:
            raise UsageError("a broker filters by tags or by SQL92", hint="put the tag into it: TAGS = 'A' AND ...")

    def subscription(self) -> Subscription:
        """The filter, for the broker."""
        kind = SQL92 if self.sql92 else TAG
        return parse_subscription(self.topic, self.sql92 or self.tags or None, kind)

    @property
    def is_filtered(self) -> bool:
        """True if the broker filters messages."""
        return bool(self.sql92) or bool(self.subscription().tags)

    @property
    def identity(self) -> str:
        """Sixteen letters made of the whole request."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
