"""A quota: how much may come and go in a second, of one user or one topic, at one broker.

Owns        the four numbers, their names as attributes of a topic, which numbers can be used.
Must not know   who counts (broker/quotas), where quotas are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketlake.base.errors import UsageError

__all__ = ["NO_QUOTA", "QUOTA_ATTRIBUTES", "QUOTA_MAX", "Quota", "quota_of"]

QUOTA_MAX: Final = 2**53
QUOTA_ATTRIBUTES: Final = {
    "quota.bytes.in": "bytes_in",
    "quota.requests.in": "requests_in",
    "quota.bytes.out": "bytes_out",
    "quota.requests.out": "requests_out",
}
"""Attribute of a topic -> field of its quota."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Most of each in a second; 0: no limit. "In" are sends, "out" are pulls and the messages that they bring."""

    bytes_in: int = 0
    requests_in: int = 0
    bytes_out: int = 0
    requests_out: int = 0

    def __post_init__(self) -> None:
        for count in (self.bytes_in, self.requests_in, self.bytes_out, self.requests_out):
            if not 0 <= count <= QUOTA_MAX:
                raise UsageError(
                    f"{count} cannot be a quota", hint=f"give 1 to {QUOTA_MAX} a second, or 0 for no quota"
                )

    def __bool__(self) -> bool:
        """False if nothing is limited."""
        return bool(self.bytes_in or self.requests_in or self.bytes_out or self.requests_out)

    def __str__(self) -> str:
        """ "bytes-in=1048576 requests-out=100", "" without any."""
        named = {field: getattr(self, field) for field in QUOTA_ATTRIBUTES.values()}
        return " ".join(f"{field.replace('_', '-')}={count}" for field, count in named.items() if count)


NO_QUOTA: Final = Quota()


def quota_of(attributes: Mapping[str, str]) -> Quota:
    """The quota that attributes of a topic say. A value that is no number, from another broker's file, says nothing."""
    if not any(name in attributes for name in QUOTA_ATTRIBUTES):
        return NO_QUOTA
    counts = {field: attributes.get(name, "") for name, field in QUOTA_ATTRIBUTES.items()}
    return Quota(
        **{field: min(int(text), QUOTA_MAX) for field, text in counts.items() if text.isascii() and text.isdecimal()}
    )
