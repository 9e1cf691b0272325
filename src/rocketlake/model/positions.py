"""Numbers that must not be mixed up: distinct types for the checker, plain ints at run time.

Owns        QueueOffset, PhysicalOffset, Millis.
Must not know   where they are kept.
"""

from __future__ import annotations

from typing import NewType

__all__ = ["Millis", "PhysicalOffset", "QueueOffset"]

QueueOffset = NewType("QueueOffset", int)
"""The number of a message in one queue, from 0."""
PhysicalOffset = NewType("PhysicalOffset", int)
"""The byte position of a record in the commit log."""
Millis = NewType("Millis", int)
"""A point in time, milliseconds since 1970-01-01 UTC."""
