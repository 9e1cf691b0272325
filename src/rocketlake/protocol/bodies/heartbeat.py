"""Bodies of HEART_BEAT and CHECK_CLIENT_CONFIG.

Owns        their shape.
Must not know   the tables of clients.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rocketlake.model.subscription import Subscription
from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body, Entry
from rocketlake.protocol.bodies.java_enum import ConsumeFromWhere, ConsumeType, MessageModel

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionEntry(Entry, kw_only=True):
    """One subscription; `sub_version` in ms, empty sets mean every tag."""

    topic: str = ""
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[int] = field(default_factory=list)
    sub_version: int = 0
    class_filter_mode: bool = False
    expression_type: str | None = "TAG"

    def to_model(self) -> Subscription:
        """The model value."""
        return Subscription(
            topic=self.topic,
            expression=self.sub_string,
            tags=frozenset(self.tags_set),
            tag_codes=frozenset(self.code_set),
            version=self.sub_version,
            expression_type=self.expression_type or "TAG",
            class_filter_mode=self.class_filter_mode,
        )

    @classmethod
    def from_model(cls, subscription: Subscription) -> SubscriptionEntry:
        """From the model value."""
        return cls(
            topic=subscription.topic,
            sub_string=subscription.expression,
            tags_set=sorted(subscription.tags),
            code_set=sorted(subscription.tag_codes),
            sub_version=subscription.version,
            expression_type=subscription.expression_type,
            class_filter_mode=subscription.class_filter_mode,
        )


class ProducerEntry(Entry, kw_only=True):
    """A producer group of the client."""

    group_name: str


class ConsumerEntry(Entry, kw_only=True):
    """A consumer group of the client."""

    group_name: str
    consume_type: ConsumeType = CONSUME_PASSIVELY
    message_model: MessageModel = CLUSTERING
    consume_from_where: ConsumeFromWhere = CONSUME_FROM_LAST_OFFSET
    unit_mode: bool = False
    subscriptions: list[SubscriptionEntry] = field(default_factory=list, name="subscriptionDataSet")


class Heartbeat(Body, kw_only=True):
    """HEART_BEAT; `fingerprint` 0 = version 1, always complete; `without_sub` = subscriptions left out, unchanged."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    client_id: str = field(name="clientID")
    producers: list[ProducerEntry] = field(default_factory=list, name="producerDataSet")
    consumers: list[ConsumerEntry] = field(default_factory=list, name="consumerDataSet")
    fingerprint: int = field(default=0, name="heartbeatFingerprint")
    without_sub: bool = False


class ClientConfigCheck(Body, kw_only=True):
    """CHECK_CLIENT_CONFIG: a client asks whether the broker serves this subscription."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription: SubscriptionEntry = field(name="subscriptionData")
