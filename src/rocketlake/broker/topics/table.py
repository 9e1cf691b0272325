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

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.base.files import Files
from rocketlake.base.java_pretty import to_pretty_text
from rocketlake.base.json_text import parse
from rocketlake.base.saved_json import load_text, save_text
from rocketlake.model.names import is_system_topic
from rocketlake.model.topic import DataVersion, TopicConfig, TopicFilterType

__all__ = ["TopicTable"]


class TopicTable:
    """Topic settings by topic name."""

    def __init__(self, path: Path, files: Files, clock: Clock, builtin: Iterable[TopicConfig] = ()) -> None:
        """`builtin`: topics the broker needs for itself (topics/builtin.py)."""
        self.path = path
        self.changed = False
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.on_change: list[Callable[[str], None]] = []
        """Called with the name of a topic that was made, changed or deleted."""
        self._files = files
        self._clock = clock
        self._topics = {topic.name: topic for topic in builtin}
        self._builtin = frozenset(self._topics)

    def get(self, name: str) -> TopicConfig | None:
        """The topic, if it exists."""
        return self._topics.get(name)

    def put(self, topic: TopicConfig) -> None:
        """Make or replace a topic."""
        self._topics[topic.name] = topic
        self._note_change(topic.name)

    def delete(self, name: str) -> bool:
        """Forget a topic; True if there was one."""
        if self._topics.pop(name, None) is None:
            return False
        self._note_change(name)
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
        self.data_version = self.data_version.next(self._clock.now_ms())
        self.changed = True

    def load(self) -> None:
        """Read topics.json over the built-in topics; a missing file changes nothing. StoreError if it is not JSON."""
        text = load_text(self._files, self.path)
        if text is None:
            return
        try:
            self._take(parse(text))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise StoreError(
                f"the topic table cannot be read: {error}",
                path=str(self.path),
                hint=f"restore it from {self.path}.bak, or move it away to start with the built-in topics only",
            ) from error
        self.changed = False

    def save(self) -> None:
        """Write topics.json now, if anything changed."""
        if self.changed:
            self.changed = False
            save_text(self._files, self.path, self.to_text())

    def to_text(self) -> str:
        """The text of topics.json."""
        version = self.data_version
        return to_pretty_text(
            {
                "dataVersion": {
                    "counter": version.counter,
                    "stateVersion": version.state_version,
                    "timestamp": version.timestamp,
                },
                "topicConfigTable": {name: _to_wire(topic) for name, topic in self._topics.items()},
            }
        )

    def _take(self, wire: dict[str, Any]) -> None:
        version = wire.get("dataVersion") or {}
        self.data_version = DataVersion(
            counter=int(version.get("counter", 0)),
            state_version=int(version.get("stateVersion", 0)),
            timestamp=int(version.get("timestamp", self.data_version.timestamp)),
        )
        for name, topic in (wire.get("topicConfigTable") or {}).items():
            self._topics[name] = _from_wire(name, topic)

    def _note_change(self, name: str) -> None:
        self.new_version()
        for call in self.on_change:
            call(name)


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
