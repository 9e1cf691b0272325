"""Become the master in an epoch, also from being the master of an older one.

Owns        the order of the steps before the first message is taken.
Must not know   who chose this broker, how the follower is stopped, what acks wait for.

The follower must have stopped, and no message may be taken yet: the epoch is on disk before its first byte.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.kept import KeptEpochs
from rocketlake.store.message_store import MessageStore

__all__ = ["LogDamaged", "Promotion"]

_LOOK_SECONDS = 0.002


class LogDamaged(StoreError):
    """The log lacks, or may lack, what this broker has acknowledged: it must not lead."""


class Promotion:
    """Changes of one broker to a master."""

    def __init__(self, store: MessageStore, epochs: KeptEpochs, clock: Clock) -> None:
        self._store = store
        self._epochs = epochs
        self._clock = clock

    async def become_master(self, epoch: int, *, is_log_whole: bool = True) -> PhysicalOffset:
        """Make the log ready for messages of this epoch; returns where the log ends now.

        A master that comes back in its own epoch goes on in it, unless it may have lost the end of its log
        (`is_log_whole` False, or a start found damage): it would write other bytes of that epoch than its slaves have.
        A new epoch, by which they see that they differ, comes from the controller only.

        The epoch is on disk then, all that may be read is in its queues, and new messages are numbered behind those
        that may not be read yet. Raises UsageError for an epoch older than the newest known; LogDamaged for a log that
        is not whole, or a damaged record that may be acknowledged; OSError, StoreError if the disk refuses.
        """
        store = self._store
        self._check(epoch, is_log_whole=is_log_whole and store.damaged_from is None)
        sound_end = await store.sound_end()
        if sound_end < store.max_physical_offset:
            # Another replica may have it, acknowledged, and be chosen in place of this one. Only whole records are
            # appended, and a start cuts a torn end: this one was damaged later.
            await store.note_damage(sound_end)
            raise LogDamaged(
                f"the record at {sound_end} of the log is damaged, so this broker cannot become the master",
                offset=sound_end,
                hint="wait until another replica is the master: it is copied anew from it",
            )
        last = self._epochs.history.last
        if last is None or last.number != epoch:
            await self._begin(epoch)
        while store.dispatched_offset < store.durability.readable_end and store.writable:
            await self._clock.sleep(_LOOK_SECONDS)
        store.number_unread()
        return store.max_physical_offset

    async def _begin(self, epoch: int) -> None:
        """The first epoch of all begins with the log: what is in it was never another master's."""
        store = self._store
        start = store.max_physical_offset if self._epochs.history.epochs else store.min_physical_offset
        await self._epochs.lead(epoch, start)
        if store.damaged_from == store.max_physical_offset:  # what was behind this end is given up now
            await store.end_is_sound()

    def _check(self, epoch: int, *, is_log_whole: bool) -> None:
        last = self._epochs.history.last
        if last is not None and epoch < last.number:
            raise UsageError(
                f"this broker knows of epoch {last.number} and cannot lead in {epoch}",
                hint="see that all brokers of the group and their controller belong to one cluster",
            )
        if last is not None and epoch == last.number and not is_log_whole:
            raise LogDamaged(
                f"this broker led in epoch {epoch}, may have lost the end of its log since, and cannot go on in it",
                hint="wait until the controller has made another replica the master; else: mqadmin electMaster",
            )
