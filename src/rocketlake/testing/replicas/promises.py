"""What a group promises, whatever fails: compared after each step of a model or a simulation.

Owns        the records that were acknowledged, the masters of the epochs, the comparison with logs and sets.
Must not know   how a step comes about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rocketlake.controller.group import Group

__all__ = ["Broken", "Entry", "Promises"]

Entry: TypeAlias = tuple[int, int]
"""Epoch of the master that wrote it, a number that no other entry has."""


class Broken(Exception):
    """A promise does not hold."""


class Promises:
    """The promises to the clients of one group."""

    def __init__(self) -> None:
        self.acked: list[Entry] = []
        """All that was acknowledged, by place in the log."""
        self.epochs: dict[int, int | None] = {}
        """The master of each epoch."""

    def acknowledge(self, log: Sequence[Entry], confirmed: int) -> None:
        """A master tells its clients that all up to `confirmed` of its log is safe."""
        both = min(confirmed, len(self.acked))
        if list(log[:both]) != self.acked[:both]:
            raise Broken("an acknowledged record was replaced by another one that is acknowledged now")
        self.acked.extend(log[len(self.acked) : confirmed])

    def recorded(self, before: Group, after: Group) -> None:
        """The state of the group changed."""
        if after.master_epoch < before.master_epoch or after.in_sync_epoch < before.in_sync_epoch:
            raise Broken(f"an epoch went back: {before} {after}")
        if self.epochs.setdefault(after.master_epoch, after.master) != after.master:
            raise Broken(f"two masters in epoch {after.master_epoch}")

    def electable(self, group: Group, logs: Mapping[int, Sequence[Entry]]) -> None:
        """Each replica that may be elected holds all; `logs`: of those that are not known to lack their end."""
        for broker_id in group.electable & logs.keys():
            self.holds_all(logs[broker_id], f"{broker_id} is electable ({group})")

    def holds_all(self, log: Sequence[Entry], who: str) -> None:
        """The log has each acknowledged record at its place."""
        if list(log[: len(self.acked)]) != self.acked:
            place = next(at for at, entry in enumerate(self.acked) if len(log) <= at or log[at] != entry)
            raise Broken(f"{who} and lacks the acknowledged entry {place} of {len(self.acked)}")
