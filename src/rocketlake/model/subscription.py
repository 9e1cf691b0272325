"""The messages that a consumer wants of a topic.

Owns        Subscription and the reading of tag expressions ("TagA || TagB").
Must not know   how messages are matched (filter).

Source: Java SubscriptionData, FilterAPI, ExpressionType.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketlake.base.errors import UsageError
from rocketlake.base.java.java_compat import string_hash

__all__ = ["ALL", "SQL92", "TAG", "Subscription", "parse_subscription"]

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and an expression. No tags and no codes: all messages. `version` is the time it was made, ms."""

    topic: str
    expression: str = ALL
    tags: frozenset[str] = frozenset()
    tag_codes: frozenset[int] = frozenset()
    version: int = field(default=0, compare=False)
    expression_type: str = TAG
    class_filter_mode: bool = False

    @property
    def is_tag_type(self) -> bool:
        """True if the expression is one of tags. Old peers leave the type empty."""
        return self.expression_type in (TAG, "")


def parse_subscription(
    topic: str, expression: str | None, expression_type: str = TAG, version: int = 0
) -> Subscription:
    """Read an expression. UsageError for a tag expression without a tag ("||")."""
    if expression_type not in (TAG, "", None):
        if not expression:
            raise UsageError(f"the {expression_type} expression for topic {topic} is empty")
        return Subscription(topic, expression, version=version, expression_type=expression_type)
    if not expression or expression == ALL:
        return Subscription(topic, ALL, version=version)
    tags = [tag for part in expression.split("||") if (tag := part.strip())]
    if not tags:
        raise UsageError(f"the tag expression {expression!r} names no tag", hint='write "TagA || TagB", or "*" for all')
    return Subscription(
        topic,
        expression,
        tags=frozenset(tags),
        tag_codes=frozenset(string_hash(tag) for tag in tags),
        version=version,
    )
