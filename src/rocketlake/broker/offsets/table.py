"""The offset of each consumer group in each queue it reads.

Owns        committed offsets, offsets to restart from, consumerOffset.json.
Must not know   who is connected, which topics and groups exist, what is in the queues.

Invariant: a restart offset is given out once and then forgotten; until then it hides the committed one.
Restart and pull offsets live in memory only, as in RocketMQ.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.base.files import Files
from rocketlake.base.json_text import to_text
from rocketlake.broker.saved_table import SavedTable

__all__ = ["NO_OFFSET", "OffsetTable"]

NO_OFFSET = -1
T = TypeVar("T")

_Queues = dict[int, int]


class _Line:
    """The offsets of one group in one topic, and their line in the file; None: to be written anew."""

    __slots__ = ("queues", "text")

    def __init__(self) -> None:
        self.queues: _Queues = {}
        self.text: str | None = None

    def to_text(self, topic: str, group: str) -> str:
        if self.text is None:
            offsets = ",".join([f"{queue_id}:{offset}" for queue_id, offset in self.queues.items()])
            self.text = f"{_quoted(f'{topic}@{group}')}:{{{offsets}\n\t\t}}"
        return self.text


_Offsets = dict[str, dict[str, dict[int, int]]]
"""By group, topic and queue id."""


class OffsetTable(SavedTable):
    """Committed queue offsets by group, topic and queue id."""

    holds = "the table of consumer offsets"
    without_file = "to start without offsets"

    def __init__(self, path: Path, files: Files, clock: Clock, version_step: int = 500) -> None:
        """`version_step`: commits per step of the data version (consumerOffsetUpdateVersionStep)."""
        super().__init__(path, files, clock, version_step=version_step)
        self._committed: dict[str, dict[str, _Line]] = {}
        self._pulled: _Offsets = {}
        self._restart: _Offsets = {}

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The offset to read next, -1 if the group has none; a restart offset goes before the committed one."""
        if self._restart:
            restart = _look_up(self._restart, group, topic, queue_id)
            if restart != NO_OFFSET:
                return restart
        topics = self._committed.get(group)
        line = None if topics is None else topics.get(topic)
        return NO_OFFSET if line is None else line.queues.get(queue_id, NO_OFFSET)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep `offset` as the next to read; a lower one than before is kept too (a consumer may go back)."""
        line = self._line(group, topic)
        line.queues[queue_id] = offset
        line.text = None
        self._note_change()

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
        line = self._committed.get(group, {}).get(topic)
        return {} if line is None else dict(line.queues)

    def all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(group, topic, offsets by queue id) of everything committed."""
        for group, topics in self._committed.items():
            for topic, line in topics.items():
                yield group, topic, line.queues

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
        self._pulled.pop(group, None)
        self._restart.pop(group, None)
        if self._committed.pop(group, None) is not None:
            self.changed = True

    def remove_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        _remove_topic(self._pulled, topic)
        _remove_topic(self._restart, topic)
        if _remove_topic(self._committed, topic):
            self.changed = True

    def to_text(self) -> str:
        """The text of consumerOffset.json, laid out as fastjson's pretty form.

        Made anew every few seconds on the event loop: lines of groups that did not move are kept from the last time.
        """
        version = self.data_version
        lines = [
            line.to_text(topic, group) for group, topics in self._committed.items() for topic, line in topics.items()
        ]
        groups = [
            f"{_quoted(group)}:[{','.join(map(_quoted, sorted(topics)))}]" for group, topics in self._committed.items()
        ]
        return (
            f'{{\n\t"dataVersion":{{\n\t\t"counter":{version.counter},\n\t\t"stateVersion":{version.state_version},'
            f'\n\t\t"timestamp":{version.timestamp}\n\t}},'
            f'\n\t"groupTopicMap":{_block(groups)},\n\t"offsetTable":{_block(lines)}\n}}'
        )

    def _take(self, wire: dict[str, Any]) -> None:
        self._committed = {}
        for key, queues in (wire.get("offsetTable") or {}).items():
            # A group may hold "@" (RocketMQ's own "<group>@broadcast"), a topic may not.
            topic, _, group = key.partition("@")
            self._line(group, topic).queues.update({int(queue_id): int(offset) for queue_id, offset in queues.items()})

    def _line(self, group: str, topic: str) -> _Line:
        topics = self._committed.get(group)
        if topics is None:
            topics = self._committed[group] = {}
        line = topics.get(topic)
        if line is None:
            line = topics[topic] = _Line()
        return line


def _quoted(text: str) -> str:
    return to_text(text).decode()


def _block(members: Iterable[str]) -> str:
    text = ",\n\t\t".join(members)
    return f"{{\n\t\t{text}\n\t}}" if text else "{}"


def _look_up(table: _Offsets, group: str, topic: str, queue_id: int) -> int:
    topics = table.get(group)
    if topics is None:
        return NO_OFFSET
    queues = topics.get(topic)
    return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)


def _queues(table: _Offsets, group: str, topic: str) -> _Queues:
    topics = table.get(group)
    if topics is None:
        topics = table[group] = {}
    queues = topics.get(topic)
    if queues is None:
        queues = topics[topic] = {}
    return queues


def _remove_queue(table: _Offsets, group: str, topic: str, queue_id: int) -> None:
    queues = table[group][topic]
    del queues[queue_id]
    if not queues:
        _remove_line(table, group, topic)


def _remove_topic(table: dict[str, dict[str, T]], topic: str) -> bool:
    groups = [group for group, topics in table.items() if topic in topics]
    for group in groups:
        _remove_line(table, group, topic)
    return bool(groups)


def _remove_line(table: dict[str, dict[str, T]], group: str, topic: str) -> None:
    del table[group][topic]
    if not table[group]:
        del table[group]
