"""The topics of this broker.

Owns        topic settings, their data version, topics.json.
Must not know   messages, queues on disk, name servers; who must hear of a change is given by the caller.

Invariant: every change of a topic makes a new data version. Built-in topics exist from the start; the file may change
them (RocketMQ's TopicConfigManager).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.files import Files
from rocketlake.base.java_pretty import to_pretty_text
from rocketlake.broker.saved_table import SavedTable
from rocketlake.model.names import is_system_topic
from rocketlake.model.topic import TopicConfig, TopicFilterType

__all__ = ["TopicTable"]


class TopicTable(SavedTable):
    """Topic settings by topic name."""

    holds = "the topic table"
    without_file = "to start with the built-in topics only"

    def __init__(self, path: Path, files: Files, clock: Clock, builtin: Iterable[TopicConfig] = ()) -> None:
        """`builtin`: topics the broker needs for itself (topics/builtin.py)."""
        super().__init__(path, files, clock)
        self.on_change: list[Callable[[str], None]] = []
        """Called with the name of a topic that was made, changed or deleted."""
        self._topics = {topic.name: topic for topic in builtin}
        self._builtin = frozenset(self._topics)

    def get(self, name: str) -> TopicConfig | None:
        """The topic, if it exists."""
        return self._topics.get(name)

    def put(self, topic: TopicConfig) -> None:
        """Make or replace a topic."""
        self._topics[topic.name] = topic
        self._tell_change(topic.name)

    def delete(self, name: str) -> bool:
        """Forget a topic; True if there was one."""
        if self._topics.pop(name, None) is None:
            return False
        self._tell_change(name)
        return True

    def all(self) -> Iterator[TopicConfig]:
        """Every topic, in order of creation."""
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def is_system(self, name: str) -> bool:
        """Is it a topic of RocketMQ itself, by its name or because this broker needs it?"""
        return name in self._builtin or is_system_topic(name)

    def is_ordered(self, name: str) -> bool:
        """Is the topic marked as ordered?"""
        topic = self._topics.get(name)
        return topic is not None and topic.order

    def new_version(self) -> None:
        """Make name servers take the whole table again, as after a change of the broker's own permission."""
        self._note_change()

    def to_text(self) -> str:
        """The text of topics.json."""
        return to_pretty_text(
            {
                "dataVersion": self._version_on_wire(),
                "topicConfigTable": {name: _to_wire(topic) for name, topic in self._topics.items()},
            }
        )

    def _take(self, wire: dict[str, Any]) -> None:
        for name, topic in (wire.get("topicConfigTable") or {}).items():
            self._topics[name] = _from_wire(name, topic)

    def _tell_change(self, name: str) -> None:
        self._note_change()
        call_each(self.on_change, name)


def _to_wire(topic: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": topic.attributes,
        "order": topic.order,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicFilterType": topic.filter_type.value,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


def _from_wire(name: str, wire: dict[str, Any]) -> TopicConfig:
    return TopicConfig(
        name,
        read_queues=int(wire.get("readQueueNums", 16)),
        write_queues=int(wire.get("writeQueueNums", 16)),
        perm=int(wire.get("perm", 6)),
        filter_type=TopicFilterType(wire.get("topicFilterType", "SINGLE_TAG")),
        sys_flag=int(wire.get("topicSysFlag", 0)),
        order=bool(wire.get("order", False)),
        attributes={str(key): str(value) for key, value in (wire.get("attributes") or {}).items()},
    )
