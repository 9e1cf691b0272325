"""Messages that were popped in order: a queue hands out no others until they are acknowledged, or their time is over.

Owns        the messages in flight of each group and queue, how often each was handed out, consumerOrderInfo.json.
Must not know   requests, offsets of groups, what the messages hold.

Rules: RocketMQ's ConsumerOrderInfoManager. Who asks again with the same attempt id gets the same messages: the answer
was lost. The table is saved from time to time and not copied to slaves: after a crash or another master a queue is
free, and hands out again from the committed offset, in order.

Departure: a message of a pop that the table does not know, of before a crash perhaps, moves its group only if it is the
next one. Apache's broker, which does not know either what was popped with it, moves the group behind it, over those
that are open.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import field

from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.model.pop import NO_RETRY
from rocketlake.protocol.bodies.body import Entry, convert, to_json

__all__ = ["ILLEGAL", "STALE", "OrderTable"]

STALE = -2
"""The acknowledgement belongs to an earlier pop, or one that is not known: it moves no group."""
ILLEGAL = -1
"""The message is not in flight."""
_KEPT_MS = 24 * 3_600_000

_Key = tuple[str, str, int]
"""Group, topic, queue id."""


class _InFlight(Entry, kw_only=True):
    """What a queue has handed out. Members stand in the order of their names, as fastjson writes them."""

    attempt_id: str | None = field(name="a", default=None)
    acknowledged: int = field(name="cm", default=0)
    """Bit i: message i is acknowledged."""
    invisible_ms: int = field(name="i")
    seen_ms: int = field(name="l", default=0)
    steps: list[int] = field(name="o")
    """The first offset, then the distance of each other one to it."""
    tries: dict[int, int] | None = field(name="oc", default=None)
    visible_ms: dict[int, int] | None = field(name="ot", default=None)
    """Of messages whose invisible time was changed."""
    pop_ms: int = field(name="popTime")

    @property
    def offsets(self) -> list[int]:
        first = self.steps[0]
        return [first, *[first + step for step in self.steps[1:]]]

    def open_offsets(self) -> list[int]:
        """Those that are not acknowledged."""
        return [offset for i, offset in enumerate(self.offsets) if not self.acknowledged >> i & 1]

    def free_ms(self, now_ms: int) -> int:
        """When the queue is free; 0: now."""
        until = self.pop_ms + self.invisible_ms
        ends = [(self.visible_ms or {}).get(offset, until) for offset in self.open_offsets()]
        return max([end for end in ends if end > now_ms], default=0)


class OrderTable(SavedTable):
    """What is in flight, by group, topic and queue."""

    holds = "the table of ordered pops"
    without_file = "to have what is in flight handed out again"

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._in_flight: dict[_Key, _InFlight] = {}

    def __iter__(self) -> Iterator[_Key]:
        """Groups and queues that were popped in order."""
        return iter(self._in_flight)

    def blocked_until(self, key: _Key, attempt_id: str | None) -> int:
        """When the queue hands out again, ms; 0: now, also for the attempt that has its messages."""
        flight = self._in_flight.get(key)
        if flight is None or (attempt_id is not None and attempt_id == flight.attempt_id):
            return 0
        return flight.free_ms(self._clock.now_ms())

    def hand_out(
        self, key: _Key, attempt_id: str | None, pop_ms: int, invisible_ms: int, offsets: Sequence[int]
    ) -> list[str]:
        """Note messages; the parts of orderCountInfo: how often each was handed out before."""
        before = self._in_flight.get(key)
        counts = dict.fromkeys(offsets, 0)
        if before is not None:
            is_other = attempt_id is None or attempt_id != before.attempt_id
            for offset in set(before.offsets) & counts.keys():
                counts[offset] = (before.tries or {}).get(offset, 0) + is_other
        self._in_flight[key] = _InFlight(
            attempt_id=attempt_id,
            invisible_ms=invisible_ms,
            seen_ms=self._clock.now_ms(),
            steps=[offsets[0], *[offset - offsets[0] for offset in offsets[1:]]],
            tries={offset: count for offset, count in counts.items() if count} or None,
            pop_ms=pop_ms,
        )
        self._note_change()
        queue_id = key[2]
        each = [f"{NO_RETRY} qo{queue_id}%{offset} {count}" for offset, count in counts.items() if count]
        return [*each, f"{NO_RETRY} {queue_id} {min(counts.values())}"]

    def acknowledge(self, key: _Key, offset: int, pop_ms: int, committed: int) -> int:
        """The offset to commit: the first one that is not acknowledged; or STALE, or ILLEGAL.

        `committed`: the offset that is committed now.
        """
        if offset < committed:
            return STALE
        flight = self._in_flight.get(key)
        if flight is None:  # messages before this one may have been popped with it, and be open: all come again
            return offset + 1 if offset == committed else STALE
        if flight.pop_ms != pop_ms:
            return STALE
        offsets = flight.offsets
        if offset not in offsets:
            return ILLEGAL
        flight.acknowledged |= 1 << offsets.index(offset)
        flight.seen_ms = self._clock.now_ms()
        self._note_change()
        return next(iter(flight.open_offsets()), offsets[-1] + 1)

    def change(self, key: _Key, offset: int, pop_ms: int, visible_ms: int) -> None:
        """Have a message come again at this time. Nothing happens to one that is not in flight."""
        flight = self._in_flight.get(key)
        if flight is not None and flight.pop_ms == pop_ms and offset in flight.offsets:
            flight.visible_ms = {**(flight.visible_ms or {}), offset: visible_ms}
            self._note_change()

    def tries(self, key: _Key) -> list[int]:
        """How often each message in flight was handed out before."""
        flight = self._in_flight.get(key)
        return [] if flight is None else [(flight.tries or {}).get(offset, 0) for offset in flight.offsets]

    def handed(self, key: _Key) -> int:
        """The offset behind the last message in flight; -1 if none is."""
        flight = self._in_flight.get(key)
        return flight.offsets[-1] + 1 if flight is not None and flight.open_offsets() else -1

    def forget(self, key: _Key) -> None:
        """The group goes on elsewhere in this queue."""
        if self._in_flight.pop(key, None) is not None:
            self._note_change()

    def clear(self) -> None:
        """Nothing is in flight."""
        self._in_flight.clear()
        self._note_change()

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        for key in [key for key in self._in_flight if key[1] == topic]:
            self.forget(key)

    def prune(self) -> None:
        """Forget what nobody has touched for a day."""
        oldest = self._clock.now_ms() - _KEPT_MS
        self._in_flight = {key: flight for key, flight in self._in_flight.items() if flight.seen_ms > oldest}

    def to_text(self) -> str:
        """The text of consumerOrderInfo.json, after `prune`."""
        self.prune()
        table: dict[str, dict[int, Any]] = {}
        for (group, topic, queue_id), flight in self._in_flight.items():
            shown = to_json(flight)
            shown |= {
                name: {int(offset): value for offset, value in shown[name].items()} for name in _MAPS & shown.keys()
            }
            table.setdefault(f"{topic}@{group}", {})[queue_id] = shown
        return to_pretty_text({"table": table})

    def _take(self, wire: dict[str, Any]) -> None:
        in_flight = {}
        for name, queues in (wire.get("table") or {}).items():
            topic, _, group = name.partition("@")
            for queue_id, flight in queues.items():
                in_flight[group, topic, int(queue_id)] = convert(_InFlight, flight)
        if not all(flight.steps for flight in in_flight.values()):
            raise ValueError("an entry names no offset")
        self._in_flight = in_flight


_MAPS = frozenset(("oc", "ot"))
