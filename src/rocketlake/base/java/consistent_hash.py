"""Guava's consistent hash, by which Apache's proxy chooses the queue of a key.

Owns        the bucket of a key.
Must not know   what keys and buckets are.
"""

from __future__ import annotations

from typing import Final

__all__ = ["bucket_of"]

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 2862933555777941757


def bucket_of(key: int, buckets: int) -> int:
    """Which of so many buckets a key falls into. A new bucket takes keys from the others, and moves none between them.

    Messages of one key may come by several senders, and must lie in one queue.
    """
    state, bucket = key & _MASK, 0
    while True:
        state = (state * _FACTOR + 1) & _MASK
        step = int((bucket + 1) / (((state >> 33) + 1) / (1 << 31)))
        if step >= buckets:
            return bucket
        bucket = step
