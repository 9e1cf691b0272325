"""The offset of each consumer group in each queue it reads.

Owns        committed offsets, offsets to restart from, consumerOffset.json.
Must not know   who is connected, which topics and groups exist, what is in the queues.

Invariant: a restart offset is given out once and then forgotten; until then it hides the committed one.
Restart and pull offsets live in memory only, as in RocketMQ.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.base.files import Files
from rocketlake.base.java_pretty import to_pretty_text
from rocketlake.base.json_text import parse
from rocketlake.base.saved_json import load_text, save_text
from rocketlake.model.topic import DataVersion

__all__ = ["NO_OFFSET", "OffsetTable"]

NO_OFFSET = -1

_Queues = dict[int, int]
_Groups = dict[str, dict[str, _Queues]]


class OffsetTable:
    """Committed queue offsets by group, topic and queue id."""

    def __init__(self, path: Path, files: Files, clock: Clock, version_step: int = 500) -> None:
        """`version_step`: commits per step of the data version (consumerOffsetUpdateVersionStep)."""
        self.path = path
        self.changed = False
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self._files = files
        self._clock = clock
        self._version_step = version_step
        self._commits = 0
        self._committed: _Groups = {}
        self._pulled: _Groups = {}
        self._restart: _Groups = {}

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The offset to read next, -1 if the group has none; a restart offset goes before the committed one."""
        if self._restart:
            restart = _look_up(self._restart, group, topic, queue_id)
            if restart != NO_OFFSET:
                return restart
        return _look_up(self._committed, group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep `offset` as the next to read; a lower one than before is kept too (a consumer may go back)."""
        _queues(self._committed, group, topic)[queue_id] = offset
        self.changed = True
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.data_version = self.data_version.next(self._clock.now_ms())

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """The offset up to which the group has fetched, -1 if unknown."""
        return _look_up(self._pulled, group, topic, queue_id)

    def commit_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far the group has fetched (not saved; shown in consume stats)."""
        _queues(self._pulled, group, topic)[queue_id] = offset

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Make the group go on at `offset`: its next pull is sent there, commits before that pull do not count."""
        _queues(self._restart, group, topic)[queue_id] = offset
        self.commit(group, topic, queue_id, offset)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Is there a restart offset that no pull has taken yet?"""
        return bool(self._restart) and _look_up(self._restart, group, topic, queue_id) != NO_OFFSET

    def take_reset(self, group: str, topic: str, queue_id: int) -> int:
        """The restart offset, forgotten by this call; -1 if there is none."""
        if not self._restart:
            return NO_OFFSET
        offset = _look_up(self._restart, group, topic, queue_id)
        if offset != NO_OFFSET:
            _remove_queue(self._restart, group, topic, queue_id)
        return offset

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue id (a copy)."""
        return dict(self._committed.get(group, {}).get(topic, {}))

    def all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(group, topic, offsets by queue id) of everything committed."""
        for group, topics in self._committed.items():
            for topic, queues in topics.items():
                yield group, topic, queues

    def topics_of(self, group: str) -> set[str]:
        """Topics in which the group has an offset."""
        return set(self._committed.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have an offset in the topic."""
        return {group for group, topics in self._committed.items() if topic in topics}

    def copy_group(self, source: str, target: str, topic: str) -> None:
        """Give `target` the committed offsets of `source` in the topic."""
        for queue_id, offset in self.queues(source, topic).items():
            self.commit(target, topic, queue_id, offset)

    def remove_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        for table in (self._committed, self._pulled, self._restart):
            if table.pop(group, None) is not None:
                self.changed = True

    def remove_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        for table in (self._committed, self._pulled, self._restart):
            for group in [group for group, topics in table.items() if topic in topics]:
                del table[group][topic]
                if not table[group]:
                    del table[group]
                self.changed = True

    def load(self) -> None:
        """Read consumerOffset.json; a missing file is an empty table. StoreError if neither it nor its copy is JSON."""
        text = load_text(self._files, self.path)
        if text is None:
            return
        try:
            self._take(parse(text))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise StoreError(
                f"consumer offsets cannot be read: {error}",
                path=str(self.path),
                hint=f"restore it from {self.path}.bak, or move it away to start without offsets",
            ) from error
        self.changed = False

    def save(self) -> None:
        """Write consumerOffset.json now, if anything changed."""
        if self.changed:
            self.changed = False
            save_text(self._files, self.path, self.to_text())

    def to_text(self) -> str:
        """The text of consumerOffset.json."""
        return to_pretty_text(self.to_wire())

    def to_wire(self) -> dict[str, Any]:
        """The table as RocketMQ lays it out in JSON: "topic@group" -> queue id -> offset."""
        return {
            "dataVersion": {
                "counter": self.data_version.counter,
                "stateVersion": self.data_version.state_version,
                "timestamp": self.data_version.timestamp,
            },
            "groupTopicMap": {group: set(topics) for group, topics in self._committed.items()},
            "offsetTable": {f"{topic}@{group}": queues for group, topic, queues in self.all()},
        }

    def _take(self, wire: dict[str, Any]) -> None:
        version = wire.get("dataVersion") or {}
        self.data_version = DataVersion(
            counter=int(version.get("counter", 0)),
            state_version=int(version.get("stateVersion", 0)),
            timestamp=int(version.get("timestamp", self.data_version.timestamp)),
        )
        self._committed = {}
        for key, queues in (wire.get("offsetTable") or {}).items():
            # A group may hold "@" (RocketMQ's own "<group>@broadcast"), a topic may not.
            topic, _, group = key.partition("@")
            table = _queues(self._committed, group, topic)
            table.update({int(queue_id): int(offset) for queue_id, offset in queues.items()})


def _look_up(table: _Groups, group: str, topic: str, queue_id: int) -> int:
    topics = table.get(group)
    if topics is None:
        return NO_OFFSET
    queues = topics.get(topic)
    return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)


def _queues(table: _Groups, group: str, topic: str) -> _Queues:
    topics = table.get(group)
    if topics is None:
        topics = table[group] = {}
    queues = topics.get(topic)
    if queues is None:
        queues = topics[topic] = {}
    return queues


def _remove_queue(table: _Groups, group: str, topic: str, queue_id: int) -> None:
    topics = table[group]
    queues = topics[topic]
    del queues[queue_id]
    if not queues:
        del topics[topic]
    if not topics:
        del table[group]
