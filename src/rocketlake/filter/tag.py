"""The tag test a broker does on queue entries.

Owns        subscription -> test of a tag code.
Must not know   records, requests.

A queue entry carries the 32-bit Java hash of the tag, so two tags with one hash both pass here; the consumer compares
the text of the tag again (docs/internals/store_layout.md, "Consume queue").
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.model.subscription import ALL, Subscription

__all__ = ["TagTest", "tag_matcher"]

TagTest = Callable[[int], bool]
"""Tag code of a queue entry -> is it wanted."""


def tag_matcher(subscription: Subscription | None) -> TagTest | None:
    """The test for entries of the subscribed queue; None when every entry is wanted.

    The expression must be of the tag type. Codes are signed 32-bit, as they lie in the entry.
    """
    if subscription is None or subscription.class_filter_mode or subscription.expression in ("", ALL):
        return None
    return subscription.tag_codes.__contains__
