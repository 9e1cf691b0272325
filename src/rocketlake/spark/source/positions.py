"""The start or the end of a read in options: a word, an offset, a time or a group's progress.

Owns        the forms of startingOffsets, startingTimestamp, startingOffsetsByTimestamp and their ending twins, their
            order, the queues that they must name.
Must not know   the network; seek.py finds the offset of a position.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.moment import HINT, parse_time
from rocketlake.spark.option_values import Given
from rocketlake.spark.source.offsets import describe_all

__all__ = ["Kind", "Position", "Positions", "Side", "parse_positions"]


class Kind(Enum):
    """The kinds of positions."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """One place in a queue; `number` is the offset, or the time in epoch milliseconds."""

    kind: Kind
    number: int = 0


class Side(Enum):
    """The start or the end of a read; the value begins the names of its options."""

    STARTING = "starting"
    ENDING = "ending"


_WORDS = {kind.value: Position(kind) for kind in (Kind.EARLIEST, Kind.LATEST, Kind.GROUP)}
_NUMBERS = {-2: Position(Kind.EARLIEST), -1: Position(Kind.LATEST)}


@dataclass(frozen=True, slots=True)
class Positions:
    """A position for all queues, or per topic, or per queue."""

    option: str
    side: Side
    of_all: Position | None = None
    by_topic: Mapping[str, Position] = field(default_factory=dict)
    by_queue: Mapping[MessageQueue, Position] = field(default_factory=dict)
    strict: bool = False
    """A time after the last message is an error (strategy `error`), not the queue's end."""
    group: str = ""
    """The group whose progress the word `group` means."""

    def __iter__(self) -> Iterator[Position]:
        if self.of_all is not None:
            yield self.of_all
        yield from self.by_topic.values()
        yield from self.by_queue.values()

    @property
    def topics(self) -> set[str]:
        """The topics that are named; none if one position is for all."""
        return {*self.by_topic, *(queue.topic for queue in self.by_queue)}

    def uses(self, kind: Kind) -> bool:
        """True if a queue has a position of this kind."""
        return any(position.kind is kind for position in self)

    def of(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, Position]:
        """The position of each of these queues. UsageError that lists queues left out and queues not known."""
        if self.of_all is not None:
            return dict.fromkeys(queues, self.of_all)
        topics = {queue.topic for queue in queues}
        listed = {queue for queue in queues if queue.topic not in self.by_topic}
        missing, extra = listed - self.by_queue.keys(), self.by_queue.keys() - listed
        extra_topics = sorted(self.by_topic.keys() - topics)
        if missing or extra or extra_topics:
            raise UsageError(
                f"option '{self.option}' must name each queue once; missing: {describe_all(missing)}; "
                f"unknown: {describe_all(extra)}" + "".join(f"; unknown topic {topic}" for topic in extra_topics),
                hint='write {"topic": "earliest"}; -2 = earliest, -1 = latest',
            )
        return {queue: self.by_topic.get(queue.topic) or self.by_queue[queue] for queue in queues}


def parse_positions(given: Given, side: Side, default: str, *, group: str) -> Positions:
    """The positions of one side, by Kafka's rule: timestamp before offsets by timestamp before offsets."""
    by_time = f"{side.value}OffsetsByTimestamp"
    strict = _is_strict(given) and side is Side.STARTING
    for option in (f"{side.value}Timestamp", by_time):
        if option in given:
            text = given.text(option)
            parsed = _parse_json(option, side, text) if option == by_time else _of_time(option, side, text)
            return _finish(parsed, strict, group="")
    option = f"{side.value}Offsets"
    text = given.text(option, default)
    word = _WORDS.get(text.lower())
    parsed = Positions(option, side, of_all=word) if word else _parse_json(option, side, text)
    return _finish(parsed, strict, group)


def _finish(parsed: Positions, strict: bool, group: str) -> Positions:
    if parsed.side is Side.ENDING and parsed.uses(Kind.EARLIEST):
        raise UsageError(
            f"option '{parsed.option}' says earliest (-2), and nothing ends before it starts",
            hint="write latest (-1), an offset, a time or a group",
        )
    if parsed.uses(Kind.GROUP) and not group:
        raise UsageError(
            f"option '{parsed.option}' says group, and no group is named",
            hint=f"set '{parsed.side.value}Group' (or, in a stream, 'consumerGroup') to a consumer group",
        )
    return Positions(
        parsed.option,
        parsed.side,
        parsed.of_all,
        parsed.by_topic,
        parsed.by_queue,
        strict,
        group if parsed.uses(Kind.GROUP) else "",
    )


def _is_strict(given: Given) -> bool:
    return given.choice("startingOffsetsByTimestampStrategy", ("latest", "error")) == "error"


def _of_time(option: str, side: Side, text: str) -> Positions:
    return Positions(option, side, of_all=Position(Kind.TIME, parse_time(option, text)))


def _parse_json(option: str, side: Side, text: str) -> Positions:
    is_time = option.endswith("ByTimestamp")
    form = '{"topic": {"broker": {"0": 1735689600000}}}' if is_time else '{"topic": {"broker": {"0": 23}}}'
    try:
        nested = json.loads(text)
    except ValueError:
        nested = None
    if not isinstance(nested, dict) or not nested:
        words = "" if is_time else "earliest, latest, group or "
        raise UsageError(f"option '{option}' is '{text[:200]}'", hint=words + form)
    by_topic: dict[str, Position] = {}
    by_queue: dict[MessageQueue, Position] = {}
    for topic, value in nested.items():
        if isinstance(value, dict):
            by_queue.update(_queues(option, topic, value, form))
        else:
            by_topic[topic] = _position(option, value)
    return Positions(option, side, by_topic=by_topic, by_queue=by_queue)


def _queues(option: str, topic: str, value: dict[str, Any], form: str) -> dict[MessageQueue, Position]:
    try:
        return {
            MessageQueue(topic, broker, int(queue_id)): _position(option, position)
            for broker, queues in value.items()
            for queue_id, position in queues.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"option '{option}' of topic {topic} is {json.dumps(value)[:200]}", hint=form) from error


def _position(option: str, value: Any) -> Position:
    if option.endswith("ByTimestamp"):
        return Position(Kind.TIME, parse_time(option, value))
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and value >= -2:
        return _NUMBERS.get(value) or Position(Kind.OFFSET, value)
    hint = "earliest, latest, group, -2, -1 or an offset"
    if isinstance(value, str):
        hint += f"; times belong to '{option}ByTimestamp' ({HINT})"
    raise UsageError(f"option '{option}' holds position {value!r}", hint=hint)
