"""The topics of this broker.

Owns        topic settings, their data version, topics.json.
Must not know   messages, queues on disk, name servers, the listeners of a change.

Invariant: every change of a topic makes a new data version. Built-in topics exist from the start; the file may change
them (RocketMQ's TopicConfigManager).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.tables.entry_table import EntryTable
from rocketlake.broker.tables.saved_lines import SavedLine, SavedLines
from rocketlake.broker.tables.saved_table import quoted
from rocketlake.model.names import is_system_topic
from rocketlake.model.topic import TopicConfig, TopicFilterType

__all__ = ["TopicTable"]

_log = get_logger(__name__)


class _Line(SavedLine):
    """A topic as it stands in the file."""

    __slots__ = ("topic",)

    def __init__(self, topic: TopicConfig) -> None:
        super().__init__()
        self.topic = topic

    def make_text(self) -> str:
        return f"{quoted(self.topic.name)}:{to_pretty_text(_to_wire(self.topic), 2)}"


class TopicTable(EntryTable):
    """Topic settings by topic name."""

    holds = "the topic table"
    without_file = "to start with the built-in topics only"
    entries_in = "topicConfigTable"

    def __init__(
        self,
        path: Path,
        files: Files,
        clock: Clock,
        builtin: Iterable[TopicConfig] = (),
        *,
        topics_max: int = 100_000,
        queues_max: int = 1_000_000,
        topic_queues_max: int = 65_536,
    ) -> None:
        """`builtin`: topics the broker needs for itself (topics/builtin.py)."""
        super().__init__(path, files, clock)
        self.on_change: list[Callable[[str], None]] = []
        """Called with the name of a topic that was made, changed or deleted."""
        self.unsaved: set[str] = set()
        """Topics that were made by being used, and are not on disk yet (auto_create.py): their messages must wait."""
        self._topics: dict[str, TopicConfig] = {}
        self._topics_max = topics_max
        self._queues_max = queues_max
        self._topic_queues_max = topic_queues_max
        self._queues = 0
        """Of all topics together."""
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)
        self._lines: dict[str, _Line] = {}
        self._text = SavedLines()
        for topic in builtin:
            self._set(topic)
        self._builtin = frozenset(self._topics)

    def get(self, name: str) -> TopicConfig | None:
        """The topic, if it exists."""
        return self._topics.get(name)

    def check_room(self, *topics: TopicConfig) -> None:
        """Raises UsageError if all these together would be more than the broker holds; called before a `put`."""
        growths = [self.growth(topic) for topic in topics]
        self.check_growth(sum(added for added, _more in growths), sum(more for _added, more in growths))

    def growth(self, topic: TopicConfig) -> tuple[int, int]:
        """How many topics and queues more there are when this one is put. Raises UsageError: it has too many queues."""
        known = self._topics.get(topic.name)
        more = _queues(topic) - _queues(known)
        if more > 0 and _queues(topic) > self._topic_queues_max:
            what = f"topic {topic.name} would have {_queues(topic)} queues"
            self._refuse(what, "topicQueuesMax", self._topic_queues_max, hint="give it fewer queues, or raise")
        return int(known is None), more

    def check_growth(self, added: int, more: int) -> None:
        """`check_room` for so many topics and queues more."""
        if len(self._topics) + added > self._topics_max and added:
            self._refuse(f"this broker holds {len(self._topics)} topics", "topicsMax", self._topics_max)
        if self._queues + more > self._queues_max and more > 0:
            self._refuse(f"the topics of this broker have {self._queues} queues", "queuesMax", self._queues_max)

    def _refuse(self, what: str, name: str, limit: int, hint: str = "delete unused topics, or raise") -> NoReturn:
        error = UsageError(f"{what}, {name}={limit} allows no more", hint=f"{hint} {name} in broker.conf")
        self._warnings.warn(name, "a new topic is refused: %s", error)
        raise error

    def put(self, topic: TopicConfig) -> None:
        """Make or replace a topic."""
        self._set(topic)
        self._tell_change(topic.name)

    def delete(self, name: str) -> bool:
        """Forget a topic; True if there was one."""
        if name not in self._topics:
            return False
        self._remove(name)
        self._tell_change(name)
        return True

    def replace(self, text: str | bytes, *, filled: str = "") -> bool:
        """As every table; listeners hear of each topic that is another one then. Built-in topics stay."""
        before = dict(self._topics)
        done = super().replace(text, filled=filled)
        for name in before.keys() | self._topics.keys():
            if before.get(name) != self._topics.get(name):
                call_each(self.on_change, name)
        return done

    def all(self) -> Iterator[TopicConfig]:
        """Every topic, in order of creation."""
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def is_system(self, name: str) -> bool:
        """True for a topic of RocketMQ itself, by its name or because this broker needs it."""
        return name in self._builtin or is_system_topic(name)

    def is_ordered(self, name: str) -> bool:
        """True if the topic is marked as ordered."""
        topic = self._topics.get(name)
        return topic is not None and topic.order

    def new_version(self) -> None:
        """Make name servers take the whole table again, as after a change of the broker's own permission."""
        self._note_change()

    def to_text(self) -> str:
        """The text of topics.json."""
        return "".join(self.text_parts())

    def text_parts(self) -> Iterator[str]:
        """The text of topics.json, some topics at a time."""
        yield f'{self._version_text()}\n\t"topicConfigTable":'
        yield from self._text.parts()
        yield "\n}"

    def _changing(
        self, _rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]
    ) -> Iterator[str | None]:
        wanted = []
        for name, wire in entries.items():
            wanted.append(_from_wire(name, wire))
            yield None
        for gone in self._topics.keys() - names - self._builtin:
            if gone in self._topics:
                self._remove(gone)
                yield gone
        for topic in wanted:
            if self._topics.get(topic.name) != topic:
                self._set(topic)
                yield topic.name

    def _tell(self, name: str) -> None:
        call_each(self.on_change, name)

    def _remove(self, name: str) -> None:
        self._queues -= _queues(self._topics.pop(name))
        self._text.remove(self._lines.pop(name))

    def _set(self, topic: TopicConfig) -> None:
        self._queues += _queues(topic) - _queues(self._topics.get(topic.name))
        self._topics[topic.name] = topic
        line = self._lines.get(topic.name)
        if line is None:
            line = self._lines[topic.name] = _Line(topic)
            self._text.add(line)
        line.topic = topic
        line.touch()

    def _tell_change(self, name: str) -> None:
        self._note_change()
        call_each(self.on_change, name)


def _queues(topic: TopicConfig | None) -> int:
    return 0 if topic is None else topic.queues


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
