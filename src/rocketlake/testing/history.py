"""The history of one simulated run, as producers, consumers and faults saw it.

Owns        the event log (equal for equal seeds); the messages attempted, acknowledged, handed to listeners and done.
Must not know   the rules that a history must keep (checks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rocketlake.base.clock import Clock

__all__ = ["Ack", "History", "Queue", "Rewind"]

Queue = tuple[str, str, int]
"""(broker, topic, queue id)"""


@dataclass(slots=True)
class Ack:
    """A message that a broker acknowledged.

    `may_be_lost`: it was not synced when the broker's disk lost unsynced data.
    """

    name: str
    queue: Queue
    queue_offset: int
    physical_offset: int
    key: str = ""
    is_delayed: bool = False
    may_be_lost: bool = False


@dataclass(frozen=True, slots=True)
class Rewind:
    """A queue that was readable up to `before` and, after a crash that lost unsynced data, up to `after`."""

    queue: Queue
    before: int
    after: int


@dataclass(slots=True)
class History:
    """One run. Messages go by their name, which is their body."""

    clock: Clock
    events: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sent: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """message -> topic, body: every message that was ever given to a producer"""
    attempts: Counter[str] = field(default_factory=Counter)
    acks: dict[str, Ack] = field(default_factory=dict)
    decisions: dict[str, bool] = field(default_factory=dict)
    """message of a transaction -> True if it is to be committed"""
    halves: dict[str, Ack] = field(default_factory=dict)
    """acknowledged half messages, with their place in the half topic"""
    handed: dict[str, set[str]] = field(default_factory=dict)
    """group -> messages its listeners were called with"""
    done: dict[str, Counter[str]] = field(default_factory=dict)
    """group -> message -> how often a listener took it"""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """(group, message): a listener said later at least once"""
    crashes: int = 0
    is_lossy: bool = False
    """A disk lost unsynced data, and the settings allow brokers to acknowledge messages before a sync."""
    losses: list[tuple[str, int]] = field(default_factory=list)
    """(broker, physical offset) from which on its log may have been lost, in order"""
    rewinds: list[Rewind] = field(default_factory=list)
    on_handed: list[Callable[[str, Queue, int], None]] = field(default_factory=list)
    on_done: list[Callable[[str, Queue, int], None]] = field(default_factory=list)

    def note(self, text: str) -> None:
        """One line of the event log."""
        self.events.append(f"{self.clock.monotonic():12.6f} {text}")

    def problem(self, text: str) -> None:
        """Note that a rule was broken; once for each text."""
        if text not in self.problems:
            self.note(f"PROBLEM {text}")
            self.problems.append(text)

    def acknowledge(self, ack: Ack) -> None:
        """A producer got OK."""
        self.acks[ack.name] = ack
        self.note(f"acked {ack.name} {_text(ack.queue)} {ack.queue_offset} at {ack.physical_offset}")

    def half_stored(self, ack: Ack, losses_before: int) -> None:
        """A producer got OK for a half message; `losses_before`: how many there had been when it sent it."""
        # The local transaction ran in between, and the broker may be gone by now.
        ack.may_be_lost = any(
            broker == ack.queue[0] and ack.physical_offset >= offset for broker, offset in self.losses[losses_before:]
        )
        self.halves[ack.name] = ack
        self.note(f"half {ack.name} {_text(ack.queue)} {ack.queue_offset} at {ack.physical_offset}")

    @property
    def all_acks(self) -> list[Ack]:
        """All messages that brokers acknowledged."""
        return [*self.acks.values(), *self.halves.values()]

    def hand(self, group: str, member: str, queue: Queue, offset: int, name: str) -> None:
        """A listener is called with a message."""
        self.note(f"handed {name} {_text(queue)} {offset} to {group}/{member}")
        self.handed.setdefault(group, set()).add(name)
        for look in self.on_handed:
            look(group, queue, offset)

    def finish(self, group: str, queue: Queue, offset: int, name: str) -> None:
        """A listener took the message."""
        self.done.setdefault(group, Counter())[name] += 1
        for look in self.on_done:
            look(group, queue, offset)

    def lose_from(self, broker: str, physical_offset: int) -> None:
        """The broker's log may be lost from here on."""
        self.losses.append((broker, physical_offset))
        for ack in self.all_acks:
            if ack.queue[0] == broker and ack.physical_offset >= physical_offset:
                ack.may_be_lost = True

    def reused(self, queue: Queue) -> set[int]:
        """Offsets of a queue that may have been given to a second message, after the first was lost."""
        return {
            offset for rewind in self.rewinds if rewind.queue == queue for offset in range(rewind.after, rewind.before)
        }


def _text(queue: Queue) -> str:
    return "/".join(map(str, queue))
