"""The offset of each consumer group in each queue it reads.

Owns        committed offsets, offsets to restart from, consumerOffset.json.
Must not know   connected members, which topics and groups exist, the messages of the queues.

Invariant: a restart offset is given out once and then forgotten; until then it hides the committed one. A commit of
the group may end it before: processors/offset.py decides that.
Restart and pull offsets live in memory only, as in RocketMQ.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.broker.tables.entry_table import EntryTable
from rocketlake.broker.tables.saved_lines import SavedLine, SavedLines
from rocketlake.broker.tables.saved_table import quoted
from rocketlake.model.names import is_system_group

__all__ = ["NO_OFFSET", "OffsetTable"]

NO_OFFSET = -1

_Queues = dict[int, int]
_NO_QUEUES: Mapping[int, int] = {}


class _Line(SavedLine):
    """The offsets of one group in one topic."""

    __slots__ = ("name", "queues")

    def __init__(self, group: str, topic: str) -> None:
        super().__init__()
        self.name = f"{topic}@{group}"
        self.queues: _Queues = {}

    def make_text(self) -> str:
        offsets = repr(self.queues)[1:-1].replace(" ", "")  # numbers only: three times as fast as one by one
        return f"{quoted(self.name)}:{{{offsets}\n\t\t}}"


class _GroupLine(SavedLine):
    """The topics of one group."""

    __slots__ = ("group", "topics")

    def __init__(self, group: str, topics: Collection[str]) -> None:
        super().__init__()
        self.group = group
        self.topics = topics

    def make_text(self) -> str:
        return f"{quoted(self.group)}:[{','.join(map(quoted, sorted(self.topics)))}]"


_Offsets = dict[str, dict[str, dict[int, int]]]
"""By group, topic and queue id."""


class OffsetTable(EntryTable):
    """Committed queue offsets by group, topic and queue id."""

    holds = "the table of consumer offsets"
    without_file = "to start without offsets"
    entries_in = "offsetTable"

    def __init__(self, path: Path, files: Files, clock: Clock, version_step: int = 500) -> None:
        """`version_step`: commits per step of the data version (consumerOffsetUpdateVersionStep)."""
        super().__init__(path, files, clock, version_step=version_step)
        self._committed: dict[str, dict[str, _Line]] = {}
        self._groups: dict[str, _GroupLine] = {}
        self._group_text = SavedLines()
        self._text = SavedLines()
        self._pulled: _Offsets = {}
        self._restart: _Offsets = {}
        self._reset_at: dict[str, float] = {}
        """When each group in `_restart` was reset last (monotonic seconds)."""

    @property
    def count(self) -> int:
        """Pairs of a group and a topic that have offsets."""
        return sum(map(len, self._committed.values()))

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The offset to read next, -1 if the group has none; a restart offset goes before the committed one."""
        if self._restart:
            restart = _look_up(self._restart, group, topic, queue_id)
            if restart != NO_OFFSET:
                return restart
        topics = self._committed.get(group)
        line = None if topics is None else topics.get(topic)
        return NO_OFFSET if line is None else line.queues.get(queue_id, NO_OFFSET)

    def queues_of(self, group: str, topic: str) -> Mapping[int, int] | None:
        """The committed offset of each queue, not to be changed; None while a restart offset of the group waits."""
        if group in self._restart:
            return None
        topics = self._committed.get(group)
        line = None if topics is None else topics.get(topic)
        return _NO_QUEUES if line is None else line.queues

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep `offset` as the next to read; a lower one than before is kept too (a consumer may go back)."""
        line = self._line(group, topic)
        line.queues[queue_id] = offset
        line.touch()
        self._note_change()

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """The offset up to which the group has fetched, -1 if unknown."""
        return _look_up(self._pulled, group, topic, queue_id)

    def pulled_queues(self, group: str, topic: str) -> Mapping[int, int]:
        """The same of each queue for which it is known, not to be changed."""
        return self._pulled.get(group, {}).get(topic, _NO_QUEUES)

    def commit_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far the group has fetched (not saved; shown in consume stats)."""
        _queues(self._pulled, group, topic)[queue_id] = offset

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Make the group go on at `offset`: its next pull is sent there. Commits before that pull do not count."""
        _queues(self._restart, group, topic)[queue_id] = offset
        self._reset_at[group] = self._clock.monotonic()
        self.commit(group, topic, queue_id, offset)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """True if a restart offset waits for the group's next pull."""
        return bool(self._restart) and _look_up(self._restart, group, topic, queue_id) != NO_OFFSET

    def seconds_since_reset(self, group: str) -> float:
        """How long the newest restart offset of the group has waited; 0 if none waits."""
        now = self._clock.monotonic()
        return now - self._reset_at.get(group, now)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int:
        """The restart offset, -1 if there is none. This call forgets it."""
        if not self._restart:
            return NO_OFFSET
        offset = _look_up(self._restart, group, topic, queue_id)
        if offset != NO_OFFSET:
            _remove_queue(self._restart, group, topic, queue_id)
            if group not in self._restart:
                del self._reset_at[group]
        return offset

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue id (a copy)."""
        line = self._committed.get(group, {}).get(topic)
        return {} if line is None else dict(line.queues)

    def all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(group, topic, offsets by queue id) of all committed offsets."""
        for group, topics in self._committed.items():
            for topic, line in topics.items():
                yield group, topic, line.queues

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has an offset, in the order in which it first had one."""
        return list(self._committed.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have an offset in the topic."""
        return {group for group, topics in self._committed.items() if topic in topics}

    def copy_group(self, source: str, target: str, topic: str) -> None:
        """Give `target` the committed offsets of `source` in the topic."""
        queues = self.queues(source, topic)
        if queues:
            line = self._line(target, topic)
            line.queues.update(queues)
            line.touch()
            self._note_change()

    def remove(self, group: str, topic: str) -> None:
        """Forget the offsets of a group in a topic."""
        for table in (self._pulled, self._restart):
            if topic in table.get(group, ()):
                _remove_line(table, group, topic)
        if group not in self._restart:
            self._reset_at.pop(group, None)
        line = self._committed.get(group, {}).get(topic)
        if line is not None:
            self._forget(line)
            self._note_change()

    def remove_group(self, group: str) -> Iterator[None]:
        """Forget all offsets of a group: at once, and in the steps that follow they go from the file."""
        self._pulled.pop(group, None)
        self._restart.pop(group, None)
        self._reset_at.pop(group, None)
        topics = self._committed.pop(group, {})
        if topics:
            self._group_text.remove(self._groups.pop(group))
        return self._remove_lines(list(topics.values()))

    def remove_topic(self, topic: str, is_running: Callable[[str], bool]) -> Iterator[None]:
        """Forget all offsets in a topic, in the same way.

        Members of a group that `is_running` go on with the offsets they hold, also when the topic is made anew. Their
        next pull of each queue is sent to its first message, and their commits before that do not count.
        """
        pulled = {group: topics[topic] for group, topics in self._pulled.items() if topic in topics}
        _remove_topic(self._pulled, topic)
        _remove_topic(self._restart, topic)
        for group, queues in pulled.items():
            if is_running(group):
                self._restart.setdefault(group, {})[topic] = dict.fromkeys(queues, 0)
                self._reset_at[group] = self._clock.monotonic()
        self._reset_at = {group: at for group, at in self._reset_at.items() if group in self._restart}
        lines = []
        for group in self.groups_of(topic):
            topics = self._committed[group]
            lines.append(topics.pop(topic))
            if not topics:
                del self._committed[group]
                self._group_text.remove(self._groups.pop(group))
            else:
                self._groups[group].touch()
        return self._remove_lines(lines)

    def to_text(self) -> str:
        """The text of consumerOffset.json, laid out as fastjson's pretty form."""
        return "".join(self.text_parts())

    def text_parts(self) -> Iterator[str]:
        """The text of consumerOffset.json, some lines at a time."""
        yield f'{self._version_text()}\n\t"groupTopicMap":'
        yield from self._group_text.parts()
        yield ',\n\t"offsetTable":'
        yield from self._text.parts()
        yield "\n}"

    def _changing(
        self, _rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]
    ) -> Iterator[str | None]:
        offsets = {}
        for key, wire in entries.items():
            offsets[key] = {int(queue_id): int(offset) for queue_id, offset in wire.items()}
            yield None
        for known in (self._pulled, self._restart, self._reset_at):
            known.clear()
        for key, queues in offsets.items():
            # A group may hold "@" (RocketMQ's own "<group>@broadcast"), a topic may not.
            topic, _, group = key.partition("@")
            line = self._line(group, topic)
            if line.queues != queues:
                line.queues = queues
                line.touch()
                yield key
        for gone in [line for topics in self._committed.values() for line in topics.values()]:
            if gone.name not in names:
                self._forget(gone)
                yield gone.name

    def _forget(self, gone: _Line) -> None:
        topic, _, group = gone.name.partition("@")
        topics = self._committed.get(group, {})
        if topics.get(topic) is not gone:
            return
        self._text.remove(topics.pop(topic))
        self._groups[group].touch()
        if not topics:
            del self._committed[group]
            self._group_text.remove(self._groups.pop(group))

    def _line(self, group: str, topic: str) -> _Line:
        topics = self._committed.get(group)
        if topics is None:
            topics = self._committed[group] = {}
            self._groups[group] = _GroupLine(group, topics)
            self._group_text.add(self._groups[group])
        line = topics.get(topic)
        if line is None:
            line = topics[topic] = _Line(group, topic)
            self._text.add(line, together=is_system_group(group))  # progress of transactions is two of them
            self._groups[group].touch()
        return line

    def _remove_lines(self, lines: list[_Line]) -> Iterator[None]:
        self._changes += 1
        for line in lines:
            self._text.remove(line)
            self.changed = True
            yield


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


def _remove_topic(table: _Offsets, topic: str) -> None:
    for group in [group for group, topics in table.items() if topic in topics]:
        _remove_line(table, group, topic)


def _remove_line(table: _Offsets, group: str, topic: str) -> None:
    del table[group][topic]
    if not table[group]:
        del table[group]
