"""The consumer groups this broker knows, and their settings.

Owns        group settings, forbidden topics of a group, their data version, subscriptionGroup.json.
Must not know   who is connected, offsets, how the file gets saved in time.

Rule: a group is made on first use if autoCreateSubscriptionGroup allows it, or if it is one of RocketMQ's own; its name
must be valid (RocketMQ's SubscriptionGroupManager).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.files import Files
from rocketlake.base.java_pretty import to_pretty_text
from rocketlake.base.json_text import parse
from rocketlake.base.saved_json import load_text, save_text
from rocketlake.model.group import GroupConfig
from rocketlake.model.names import check_group, is_system_group
from rocketlake.model.topic import DataVersion
from rocketlake.protocol.bodies.body import convert
from rocketlake.protocol.bodies.group import GroupEntry

__all__ = ["BUILTIN_GROUPS", "READ_FORBIDDEN", "GroupTable"]

BUILTIN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
READ_FORBIDDEN = 4
"""The bit of a forbidden topic that a group may not read."""


class GroupTable:
    """Group settings by group name."""

    def __init__(self, path: Path, files: Files, clock: Clock, *, auto_create: bool = True) -> None:
        """`auto_create`: autoCreateSubscriptionGroup."""
        self.path = path
        self.changed = False
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self._files = files
        self._clock = clock
        self._auto_create = auto_create
        self._groups = {name: GroupConfig(name) for name in BUILTIN_GROUPS}
        self._forbidden: dict[str, dict[str, int]] = {}

    def find(self, name: str) -> GroupConfig | None:
        """The group's settings, if it is known."""
        return self._groups.get(name)

    def find_or_create(self, name: str) -> GroupConfig | None:
        """The group's settings, made with defaults if that is allowed; None if it is not, or the name is no good."""
        group = self._groups.get(name)
        if group is not None or not (self._auto_create or is_system_group(name)):
            return group
        try:
            check_group(name)
        except UsageError:
            return None
        group = GroupConfig(name)
        self.put(group)
        return group

    def put(self, group: GroupConfig) -> None:
        """Make a group or replace its settings."""
        self._groups[group.name] = group
        self._note_change()

    def delete(self, name: str) -> bool:
        """Forget a group and what it is forbidden; True if there was one."""
        self._forbidden.pop(name, None)
        if self._groups.pop(name, None) is None:
            return False
        self._note_change()
        return True

    def all(self) -> dict[str, GroupConfig]:
        """Every group by name (a copy of the table), in order of creation."""
        return dict(self._groups)

    def forbidden(self, group: str, topic: str) -> int:
        """Bits of what the group may not do with the topic."""
        return self._forbidden.get(group, {}).get(topic, 0) if self._forbidden else 0

    def set_read_forbidden(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Forbid or allow a group to read a topic."""
        bits = self.forbidden(group, topic)
        bits = bits | READ_FORBIDDEN if forbidden else bits & ~READ_FORBIDDEN
        if bits:
            self._forbidden.setdefault(group, {})[topic] = bits
        else:
            topics = self._forbidden.get(group, {})
            topics.pop(topic, None)
            if not topics:
                self._forbidden.pop(group, None)
        self._note_change()

    def forbidden_table(self) -> dict[str, dict[str, int]]:
        """All forbidden bits by group and topic (a copy)."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def load(self) -> None:
        """Read subscriptionGroup.json over the built-in groups. StoreError if neither it nor its copy is JSON."""
        text = load_text(self._files, self.path)
        if text is None:
            return
        try:
            self._take(parse(text))
        except (UsageError, ValueError, TypeError, AttributeError) as error:
            raise StoreError(
                f"the consumer groups cannot be read: {error}",
                path=str(self.path),
                hint=f"restore it from {self.path}.bak, or move it away to start with the built-in groups only",
            ) from error
        self.changed = False

    def save(self) -> None:
        """Write subscriptionGroup.json now, if anything changed."""
        if self.changed:
            self.changed = False
            save_text(self._files, self.path, self.to_text())

    def to_text(self) -> str:
        """The text of subscriptionGroup.json."""
        return to_pretty_text(
            {
                "dataVersion": {
                    "counter": self.data_version.counter,
                    "stateVersion": self.data_version.state_version,
                    "timestamp": self.data_version.timestamp,
                },
                "forbiddenTable": self._forbidden,
                "subscriptionGroupTable": {name: _to_wire(group) for name, group in self._groups.items()},
            }
        )

    def _take(self, wire: dict[str, Any]) -> None:
        version = wire.get("dataVersion") or {}
        self.data_version = DataVersion(
            counter=int(version.get("counter", 0)),
            state_version=int(version.get("stateVersion", 0)),
            timestamp=int(version.get("timestamp", self.data_version.timestamp)),
        )
        for name, group in (wire.get("subscriptionGroupTable") or {}).items():
            self._groups[name] = convert(GroupEntry, {"groupName": name, **group}).to_model()
        for name, topics in (wire.get("forbiddenTable") or {}).items():
            self._forbidden[name] = {topic: int(bits) for topic, bits in topics.items()}

    def _note_change(self) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self.changed = True


def _to_wire(group: GroupConfig) -> dict[str, Any]:
    wire: dict[str, Any] = msgspec.to_builtins(GroupEntry.from_model(group), order="sorted")
    return wire
