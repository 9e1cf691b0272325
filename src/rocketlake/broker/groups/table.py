"""The consumer groups this broker knows, and their settings.

Owns        group settings, forbidden topics of a group, their data version, subscriptionGroup.json.
Must not know   connected members, offsets, when the file is saved.

Rule: a group is made on first use if autoCreateSubscriptionGroup allows it, or if it is one of RocketMQ's own; its name
must be valid (RocketMQ's SubscriptionGroupManager).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.tables.entry_table import EntryTable
from rocketlake.broker.tables.saved_lines import SavedLine, SavedLines
from rocketlake.broker.tables.saved_table import quoted
from rocketlake.model.group import GroupConfig
from rocketlake.model.names import check_group, is_system_group
from rocketlake.protocol.bodies.body import convert
from rocketlake.protocol.bodies.group import GroupEntry

__all__ = ["BUILTIN_GROUPS", "READ_FORBIDDEN", "GroupTable"]

_log = get_logger(__name__)

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
"""The bit for "this group may not read this topic"."""
_FORBIDDEN_MAX = 1000
"""Topics of one group: the file and each answer with all groups hold them."""


class _Line(SavedLine):
    """A group as it stands in the file."""

    __slots__ = ("group", "name")

    def __init__(self, name: str, group: GroupConfig) -> None:
        super().__init__()
        self.name = name
        self.group = group

    def make_text(self) -> str:
        return f"{quoted(self.name)}:{to_pretty_text(_to_wire(self.group), 2)}"


class GroupTable(EntryTable):
    """Group settings by group name."""

    holds = "the table of consumer groups"
    without_file = "to start with the built-in groups only"
    entries_in = "subscriptionGroupTable"

    def __init__(
        self, path: Path, files: Files, clock: Clock, *, auto_create: bool = True, groups_max: int = 100_000
    ) -> None:
        """`auto_create`: autoCreateSubscriptionGroup."""
        super().__init__(path, files, clock)
        self.on_change: list[Callable[[], None]] = []
        """Called when a group was made, changed or deleted."""
        self.unsaved: set[str] = set()
        """Groups that their first members made, and that may be on no disk yet; who has one saved takes it out."""
        self._auto_create = auto_create
        self._groups_max = groups_max
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)
        self._groups: dict[str, GroupConfig] = {}
        self._lines: dict[str, _Line] = {}
        self._text = SavedLines()
        for name in BUILTIN_GROUPS:
            self._set(name, GroupConfig(name))
        self._forbidden: dict[str, dict[str, int]] = {}

    def find(self, name: str) -> GroupConfig | None:
        """The group's settings, if it is known."""
        return self._groups.get(name)

    def find_or_create(self, name: str) -> GroupConfig | None:
        """The group's settings, made with defaults if that is allowed; None if it is not, or the name is not valid.

        Raises UsageError when there are too many.
        """
        group = self._groups.get(name)
        if group is not None or not (self._auto_create or is_system_group(name)):
            return group
        try:
            check_group(name)
        except UsageError:
            return None
        self.check_room(name)
        group = GroupConfig(name)
        self.put(group)
        self.unsaved.add(name)
        return group

    def check_room(self, *names: str) -> None:
        """Raises UsageError if all these together would be more than the broker holds; called before a `put`."""
        added = sum(name not in self._groups for name in names)
        if added and len(self._groups) + added > self._groups_max:
            error = UsageError(
                f"this broker holds {len(self._groups)} consumer groups, groupsMax={self._groups_max} allows no more",
                hint="delete unused groups, or raise groupsMax in broker.conf",
            )
            self._warnings.warn("groupsMax", "a new group is refused: %s", error)
            raise error

    def put(self, group: GroupConfig) -> None:
        """Make a group or replace its settings."""
        self._set(group.name, group)
        self._note_change()

    def delete(self, name: str) -> bool:
        """Forget a group and its forbidden topics; True if there was one."""
        forbidden = self._forbidden.pop(name, None)
        self.unsaved.discard(name)
        is_known = name in self._groups
        if is_known:
            self._remove(name)
        if is_known or forbidden:
            self._note_change()
        return is_known

    def all(self) -> dict[str, GroupConfig]:
        """Every group by name (a copy of the table), in order of creation."""
        return dict(self._groups)

    def forbidden(self, group: str, topic: str) -> int:
        """The bits of the uses of this topic that are forbidden to the group; 0 if none is."""
        return self._forbidden.get(group, {}).get(topic, 0) if self._forbidden else 0

    def set_read_forbidden(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Forbid or allow a group to read a topic. Raises UsageError when it is forbidden too many."""
        bits, topics = self.forbidden(group, topic), self._forbidden.get(group, {})
        if forbidden and not bits and len(topics) >= _FORBIDDEN_MAX:
            raise UsageError(
                f"group {group} is forbidden {len(topics)} topics, and no more are kept",
                hint="allow it topics that are gone, or use policies: `rocketlake acl deny`",
            )
        bits = bits | READ_FORBIDDEN if forbidden else bits & ~READ_FORBIDDEN
        if bits:
            self._forbidden.setdefault(group, {})[topic] = bits
        else:
            topics.pop(topic, None)
            if not topics:
                self._forbidden.pop(group, None)
        self._note_change()

    def forbidden_table(self) -> dict[str, dict[str, int]]:
        """All forbidden bits by group and topic (a copy)."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def to_text(self) -> str:
        """The text of subscriptionGroup.json."""
        return "".join(self.text_parts())

    def text_parts(self) -> Iterator[str]:
        """The text of subscriptionGroup.json, some groups at a time."""
        yield f'{self._version_text()}\n\t"forbiddenTable":{to_pretty_text(self._forbidden, 1)},'
        yield '\n\t"subscriptionGroupTable":'
        yield from self._text.parts()
        yield "\n}"

    def _changing(
        self, rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]
    ) -> Iterator[str | None]:
        groups = {}
        for name, wire in entries.items():
            groups[name] = convert(GroupEntry, {"groupName": name, **wire}).to_model()
            yield None
        self._forbidden = {
            name: {topic: int(bits) for topic, bits in topics.items()}
            for name, topics in (rest.get("forbiddenTable") or {}).items()
        }
        for gone in self._groups.keys() - names - set(BUILTIN_GROUPS):
            if gone in self._groups:
                self._remove(gone)
                yield gone
        for name, group in groups.items():
            if self._groups.get(name) != group:
                self._set(name, group)
                yield name

    def _note_change(self) -> None:
        super()._note_change()
        call_each(self.on_change)

    def _remove(self, name: str) -> None:
        del self._groups[name]
        self._text.remove(self._lines.pop(name))

    def _set(self, name: str, group: GroupConfig) -> None:
        self._groups[name] = group
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(name, group)
            self._text.add(line)
        line.group = group
        line.touch()


def _to_wire(group: GroupConfig) -> dict[str, Any]:
    wire: dict[str, Any] = msgspec.to_builtins(GroupEntry.from_model(group), order="sorted")
    return wire
