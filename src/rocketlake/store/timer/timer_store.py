"""Messages that wait for a time, in Apache's files.

Owns        putting a message into the wheel, what waits for a tick, what the disk has of it, the start after a crash.
Must not know   messages and topics (the caller reads their records), clocks, when anything is delivered.

The wheel and the timer log are made from the messages of the timer topic, which lie in the commit log. So a loss here
loses no message: what the checkpoint does not vouch for is put in again from there.

Order of a flush: units, then slots, then the checkpoint that vouches for both. A start believes the slots up to the
checkpoint, and corrects those of units behind it. A slot that leads behind the end of the log is made anew from all
units: that is what a power cut leaves that kept the slot and lost its unit.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocketlake.base.disk.seam import Files
from rocketlake.base.logs import get_logger
from rocketlake.store.timer.checkpoint import TimerCheckpoint, load_checkpoint, save_checkpoint
from rocketlake.store.timer.layout import DELETE, NOWHERE, OURS, SLOT_BYTES, SLOTS, SLOTS_A_ROUND, Slot, Unit, pack_unit
from rocketlake.store.timer.log import TimerLog
from rocketlake.store.timer.wheel import TimerWheel

if TYPE_CHECKING:
    from rocketlake.store.timer import unit_run

__all__ = ["TimerStore", "Waiting"]

_log = get_logger(__name__)


class Waiting(NamedTuple):
    """A message for the wheel."""

    due_ms: int
    """The tick that delivers it: a multiple of the precision."""
    bits: int
    physical_offset: int
    size: int
    topic_hash: int


class TimerStore:
    """The three files of one broker. All methods raise OSError when the disk refuses, `open` StoreError, too."""

    def __init__(self, root: Path, files: Files, *, file_bytes: int, precision_ms: int) -> None:
        """`root`: of the message store. `file_bytes`: length of a file of the timer log."""
        self.precision_ms = precision_ms
        self.checkpoint = TimerCheckpoint()
        """As it is on disk."""
        self.queue_offset = 0
        """The next message of the timer topic to put in."""
        self.told: TimerCheckpoint | None = None
        """On a slave: how far its master is."""
        self._root = root
        self._disk = files
        self._file_bytes = file_bytes
        self._path = root / "config" / "timercheck"
        self._wheel_path = root / "timerwheel"
        self._log_path = root / "timerlog"
        self._open: tuple[TimerLog, TimerWheel] | None = None
        self._is_changed = False

    # -- life ----------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the checkpoint; and bring the files into agreement, if there are any."""
        self.close()
        self.checkpoint = load_checkpoint(self._path, self._disk)
        if self.told is not None:
            self.checkpoint = self.checkpoint.with_master(self.told)
            self.told = None
        self.queue_offset = self.checkpoint.queue_offset
        if self._disk.exists(self._wheel_path) or self._disk.list_dir(self._log_path):
            self._recover()

    def _files(self) -> tuple[TimerLog, TimerWheel]:
        """Made when the first message comes: most brokers never have one."""
        if self._open is None:
            self._disk.make_dirs(self._root)
            log = TimerLog(self._log_path, self._disk, self._file_bytes, self.checkpoint.log_end)
            self._open = log, TimerWheel(self._wheel_path, self._disk, self.precision_ms)
        return self._open

    def _recover(self) -> None:
        is_whole = self._disk.exists(self._wheel_path) and self._disk.size(self._wheel_path) == SLOTS * SLOT_BYTES
        if not is_whole and self._disk.exists(self._wheel_path):
            self._disk.remove(self._wheel_path)
        log, wheel = self._files()
        # A file more, as Apache's start does: its slots are flushed by another rule than ours.
        begin = max(0, self.checkpoint.log_end - self._file_bytes) if is_whole else log.start
        is_mended = any([self._lead_to(wheel, place, unit) for place, unit in log.recover(begin)])
        if any(slot.last >= log.end for _time, slot in wheel.slots()):
            _log.warning("the timer wheel leads behind the end of its log: it is made anew from all units")
            self._make_anew(log, wheel)
        elif is_mended:
            log.sync()  # first: a power cut must not leave a wheel that leads to units which it took
            wheel.sync()

    def _make_anew(self, log: TimerLog, wheel: TimerWheel) -> None:
        for time, _slot in wheel.slots():
            wheel.clear(time)
        for place, unit in log.recover(log.start):
            self._lead_to(wheel, place, unit)
        log.sync()
        wheel.sync()

    def _lead_to(self, wheel: TimerWheel, place: int, unit: Unit) -> bool:
        """Have the slot of a sound unit lead to it; False if it does, or if its tick was delivered.

        The checkpoint says nothing of a unit that came behind it: the clock may have been set back since.
        """
        if place < self.checkpoint.log_end and unit.due_ms < self.checkpoint.read_ms - self.precision_ms:
            return False
        slot = wheel.slot(unit.due_ms)
        if slot is not None and slot.last >= place:
            return False
        wheel.put(unit.due_ms, _with(slot, place, unit.bits))
        return True

    def first_waiting(self, from_ms: int) -> int | None:
        """The first tick from this time on of which this broker knows that it was not delivered for good."""
        if self._open is None:
            return None
        ticks = (time for time, slot in self._open[1].slots() if slot.mark == OURS and time >= from_ms)
        return next(ticks, None)

    def go_back(self, queue_offset: int, place: int | None) -> None:
        """The commit log has lost messages of the timer topic from this offset on, others will follow in their place.

        `place`: from here on the units of the timer log are of such messages; None: none are. Safe when it returns,
        else another crash would take the new messages for those that were put in. Blocking.
        """
        self.queue_offset = queue_offset
        back = replace(self.checkpoint, queue_offset=queue_offset, master_queue_offset=queue_offset)
        if place is not None:
            log, wheel = self._files()
            log.cut(place)
            back = replace(back, log_end=min(place, back.log_end))
            self.checkpoint = self._save(back)
            self._make_anew(log, wheel)
        self.checkpoint = self._save(back)

    def close(self) -> None:
        """Give the files back; nothing is written."""
        if self._open is not None:
            log, wheel = self._open
            self._open = None
            log.close()
            wheel.close()

    # -- putting -------------------------------------------------------------------------------------------------------

    def newest(self) -> Iterator[tuple[int, Unit]]:
        """(place in the timer log, unit) of all, the newest first."""
        return iter(()) if self._open is None else self._open[0].back()

    def put(self, messages: Iterable[Waiting], written_ms: int) -> None:
        """Put messages into the wheel, all or none; `written_ms`: the time now."""
        log, wheel = self._files()
        run, end = bytearray(), log.end
        slots: dict[int, Slot] = {}
        for message in messages:
            place, blank = log.next_place(end)
            slot = slots.get(message.due_ms) or wheel.slot(message.due_ms)
            unit = Unit(
                NOWHERE if slot is None else slot.last,
                message.bits,
                message.due_ms,
                message.physical_offset,
                message.size,
            )
            run += blank + pack_unit(unit, written_ms, message.topic_hash)
            slots[message.due_ms] = _with(slot, place, message.bits)
            end = log.end + len(run)
        log.append(bytes(run))
        for time, slot in slots.items():
            wheel.put(time, slot)
        self._is_changed = True

    def put_run(self, run: unit_run.UnitRun, written_ms: int) -> None:
        """`put` the messages of a run."""
        log, wheel = self._files()
        slots = [wheel.slot(time) for time in run.ticks()]
        newest = [NOWHERE if slot is None else slot.last for slot in slots]
        log.append(run.encode(log.end, log.file_bytes, written_ms, newest))
        for (time, first, last, more), slot in zip(run.tails(), slots, strict=True):
            first, waiting = (first, more) if slot is None else (slot.first, slot.waiting + more)
            wheel.put(time, Slot(first, last, waiting))
        self._is_changed = True

    # -- reading -------------------------------------------------------------------------------------------------------

    def next_filled(self, from_ms: int, until_ms: int) -> int:
        """See TimerWheel.next_filled."""
        return until_ms if self._open is None else self._open[1].next_filled(from_ms, until_ms)

    def newest_place(self, time_ms: int) -> int:
        """Where the newest unit lies that waits for a tick; NOWHERE if none waits."""
        slot = None if self._open is None else self._open[1].slot(time_ms)
        return NOWHERE if slot is None else slot.last

    def chain(self, place: int, most: int) -> tuple[list[Unit], int]:
        """(units of a tick from its `newest_place` on, the newest first; where the next one lies, NOWHERE: none)."""
        return ([], NOWHERE) if self._open is None else self._open[0].chain(place, most)

    def chain_rows(self, place: int, most: int) -> tuple[array[int], int]:
        """`chain`, as rows of a UnitStack."""
        return (array("q"), NOWHERE) if self._open is None else self._open[0].chain_rows(place, most)

    def units(self, time_ms: int) -> list[Unit]:
        """What waits for a tick, in the order in which it came."""
        return self.chain(self.newest_place(time_ms), sys.maxsize)[0][::-1]

    def done(self, time_ms: int) -> None:
        """All of this tick is delivered."""
        if self._open is not None:
            self._open[1].clear(time_ms)
            self._is_changed = True

    def counts(self, from_ms: int) -> list[tuple[int, int]]:
        """(time, how many wait for it) from this time on, in order."""
        if self._open is None:
            return []
        return [(time, slot.waiting) for time, slot in self._open[1].slots() if time >= from_ms and slot.waiting > 0]

    # -- the disk ------------------------------------------------------------------------------------------------------

    def to_flush(self, read_ms: int) -> Callable[[], TimerCheckpoint] | None:
        """A blocking call that makes all safe that was put in; `flushed` gets its result. None: nothing has changed.

        `read_ms`: the tick to deliver next, all before it are delivered for good.
        """
        log_end = self._open[0].end if self._open is not None else 0
        fresh = replace(
            self.checkpoint,
            read_ms=read_ms,
            log_end=log_end,
            queue_offset=self.queue_offset,
            master_queue_offset=self.queue_offset,
        )
        if not self._is_changed:
            return None
        self._is_changed = False
        if self._open is None:
            return lambda: self._save(fresh)
        log, wheel = self._open
        written = log.to_sync()

        def flush() -> TimerCheckpoint:
            for file in written:
                file.sync()
            wheel.sync()
            log.sync_names()
            self._disk.sync_dir(self._root)
            return self._save(fresh)

        return flush

    def _save(self, fresh: TimerCheckpoint) -> TimerCheckpoint:
        save_checkpoint(self._path, self._disk, fresh)
        return fresh

    def flushed(self, checkpoint: TimerCheckpoint) -> None:
        """A flush is done."""
        self.checkpoint = checkpoint

    def not_flushed(self) -> None:
        """A flush failed: the next one syncs all again."""
        self._is_changed = True
        if self._open is not None:
            self._open[0].not_synced()

    def drop_before(self, min_physical_offset: int) -> None:
        """Remove files of the timer log whose messages the commit log has no more."""
        if self._open is not None:
            safe_end = self.checkpoint.log_end
            self._open[0].drop_before(safe_end, lambda physical_offset: physical_offset < min_physical_offset)

    @property
    def horizon_ms(self) -> int:
        """So far ahead a message can wait."""
        return (SLOTS_A_ROUND - 60) * self.precision_ms


def _with(slot: Slot | None, place: int, bits: int) -> Slot:
    """The slot with one unit more. One that takes a message back makes them one less."""
    more = -1 if bits & DELETE else 1
    return Slot(place, place, more) if slot is None else Slot(slot.first, place, slot.waiting + more)
