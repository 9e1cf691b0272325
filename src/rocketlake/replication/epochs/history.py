"""The history of epochs of one log: which master wrote which stretch of it.

Owns        the entries and their rules, and how far two logs agree by their histories.
Must not know   files, frames, the content of the log.

Each time a broker becomes the master it begins an epoch, whose number nobody had before, at the end of its log. Only it
writes bytes of that epoch. So two logs that have byte x from the same epoch have it from the same master, with
everything before it: they agree up to the first byte that their histories give to different epochs.

Invariant: numbers rise; starts never fall. Equal starts are kept: the earlier epoch has no bytes (an idle group that
changed its master twice).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from rocketlake.base.errors import ProtocolError
from rocketlake.model.positions import PhysicalOffset

__all__ = ["Epoch", "EpochHistory", "agreed_end"]

_START = PhysicalOffset(0)


class Epoch(NamedTuple):
    """An epoch and the physical offset of its first byte; it ends where the next one starts."""

    number: int
    start: PhysicalOffset


class EpochHistory:
    """The epochs of one log, oldest first. Never changes: each change gives a new history."""

    __slots__ = ("_starts", "epochs")

    def __init__(self, epochs: Iterable[Epoch] = ()) -> None:
        """Raises ProtocolError if these epochs are no history: a peer or a file names them."""
        self.epochs = tuple(epochs)
        self._starts = [epoch.start for epoch in self.epochs]
        for older, newer in zip(self.epochs, self.epochs[1:], strict=False):
            if newer.number <= older.number or newer.start < older.start:
                raise ProtocolError(
                    f"epoch {newer.number} at {newer.start} cannot follow {older.number} at {older.start}"
                )
        if self.epochs and (self.epochs[0].number < 0 or self.epochs[0].start < 0):
            raise ProtocolError(f"{self.epochs[0]} is no epoch")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochHistory) and self.epochs == other.epochs

    def __hash__(self) -> int:
        return hash(self.epochs)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{number}: {start}" for number, start in self.epochs) + "}"

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Epoch | None:
        """The oldest epoch that is known."""
        return self.epochs[0] if self.epochs else None

    @property
    def last(self) -> Epoch | None:
        """The newest epoch; it has no bytes yet if it starts where the log ends."""
        return self.epochs[-1] if self.epochs else None

    def at(self, offset: PhysicalOffset) -> Epoch | None:
        """The epoch that the byte at this physical offset belongs to; None before the first one."""
        index = bisect_right(self._starts, offset)
        return self.epochs[index - 1] if index else None

    def end_at(self, offset: PhysicalOffset) -> PhysicalOffset | None:
        """Where the epoch of this byte ends; None if it is the last one."""
        index = bisect_right(self._starts, offset)
        return self.epochs[index].start if index < len(self.epochs) else None

    def number_at(self, offset: PhysicalOffset) -> int:
        """The number of the epoch of this byte; -1 before the first epoch."""
        epoch = self.at(offset)
        return -1 if epoch is None else epoch.number

    # -- changes -------------------------------------------------------------------------------------------------------

    def begun(self, number: int, start: PhysicalOffset) -> EpochHistory:
        """With a new epoch at the end. Raises ProtocolError if it is not newer, or starts before the last one."""
        return EpochHistory((*self.epochs, Epoch(number, start)))

    def before_epoch(self, number: int) -> EpochHistory:
        """Without the epochs from this number on."""
        return EpochHistory(epoch for epoch in self.epochs if epoch.number < number)

    def cut(self, log_end: PhysicalOffset) -> EpochHistory:
        """Without the epochs that have no byte in a log that ends there."""
        return EpochHistory(epoch for epoch in self.epochs if epoch.start < log_end)

    def from_offset(self, log_start: PhysicalOffset) -> EpochHistory:
        """Without the epochs that end at or before the first byte of the log; the newest one stays."""
        outdated = sum(start <= log_start for start in self._starts[1:])
        return EpochHistory(self.epochs[outdated:])

    def newest(self, count: int) -> EpochHistory:
        """The newest epochs, that many at most."""
        return EpochHistory(self.epochs[-count:])


def agreed_end(
    mine: EpochHistory, my_end: PhysicalOffset, other: EpochHistory, other_end: PhysicalOffset
) -> PhysicalOffset | None:
    """The physical offset up to which two logs agree; None if their histories cannot tell.

    They cannot if one knows nothing of the epochs of the other's bytes, or if they differ in the oldest byte that both
    know, with bytes of `mine` before it.
    """
    if mine.first is None or other.first is None:
        return _START if my_end == 0 and other.first is not None else None
    begin, end = max(mine.first.start, other.first.start), min(my_end, other_end)
    if end < begin:
        return None
    borders = _borders(begin, end, mine, other)
    differs = next((offset for offset in borders if mine.number_at(offset) != other.number_at(offset)), end)
    return None if differs == begin > mine.first.start else differs


def _borders(begin: PhysicalOffset, end: PhysicalOffset, *histories: EpochHistory) -> list[PhysicalOffset]:
    """All offsets from `begin` to before `end` where an epoch may change."""
    starts = {begin, *(epoch.start for history in histories for epoch in history.epochs)}
    return sorted(start for start in starts if begin <= start < end)
