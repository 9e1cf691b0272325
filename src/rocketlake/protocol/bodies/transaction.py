"""Answers about half messages: those that are open, those that were given up.

Owns        their shape.
Must not know   the ledger.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry


class HalfMessage(Entry, kw_only=True):
    """One transaction without an end. Times are epoch ms."""

    name: int
    """The same for all copies of its half message at this broker; -1 if that is not known."""
    id: str
    """Offset message id of its newest copy, by which RESUME_CHECK_HALF_MESSAGE names it."""
    transaction: str
    topic: str
    group: str
    keys: str = ""
    born: int
    stored: int
    """When its newest copy was stored: it was asked about then, put back, or given up."""
    checked: int
    """How often the broker asked about it, or would have if a producer had been connected."""
    producers: int
    """Producers of its group that are connected to this broker."""


class HalfMessages(Body, kw_only=True):
    """Answer of GET_HALF_MESSAGES. `next_offset` 0: there are no more, else ask again from there."""

    halves: list[HalfMessage] = field(default_factory=list)
    next_offset: int = 0
