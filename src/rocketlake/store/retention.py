"""When old files go, and when the disk is too full to write.

Owns        the age, the hour and the disk levels at which files are dropped; the disk-full verdict.
Must not know   how a file is deleted (mapped_file.py), how its age is known (file_ages.py), what the consume queues and
            the key index hold.

Invariant: only oldest files go, never the last; a view that a reader holds stays readable.
Invariant: the log's files go first, then queue and index files that point below its new begin.

Rules: docs/internals/store_layout.md, "Retention" (Apache's CleanCommitLogService).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.config import StoreConfig
from rocketlake.store.file_ages import FileAges
from rocketlake.store.mapped_file_list import LogFiles

__all__ = ["DiskView", "Removable", "Retention"]

_log = get_logger(__name__)

_MANUAL_ROUNDS = 20
_HEARING_SECONDS = 30.0
"""So long `before_drop` may put off a round: no message is taken while the disk is full."""


class Removable(Protocol):
    """A file that was taken out of the store."""

    path: Path

    def remove(self) -> None:
        """Delete it; views that readers hold stay readable. Blocking. Raises OSError."""


@dataclass(slots=True)
class DiskView:
    """The measurements of a round: how full the disks are, and when the oldest files were written last."""

    used_percent: dict[Path, float]
    modified_ms: list[int]
    room: tuple[int, int] = (0, 0)
    """(bytes this broker can have, bytes of them that are free) of the store's disk; 0 if the disk does not say."""

    @property
    def fullest(self) -> tuple[Path, float]:
        """The fullest disk; a level that could not be read counts as -1."""
        return max(self.used_percent.items(), key=lambda item: item[1])


class Retention(Service):
    """Looks at age and disk every `cleanResourceInterval`; asks `drop_below` to follow when the log lost files."""

    def __init__(
        self,
        log: LogFiles,
        folders: Sequence[Path],
        config: StoreConfig,
        *,
        files: Files,
        clock: Clock,
        worker: Worker,
        drop_below: Callable[[PhysicalOffset], Iterator[Removable]],
        derived: Callable[[], PhysicalOffset],
    ) -> None:
        """`folders`: of the log and, last, of the store; `derived`: up to which physical offset queues hold all of the
        log, on disk.
        """
        super().__init__("retention", clock)
        self.disk_full = ""
        """Why puts are refused; "" while there is room."""
        self.disk_percent = 0.0
        self.disk_room = (0, 0)
        """(bytes this broker can have, bytes of them that are free) of the store's disk, at the last look."""
        self.before_drop: Callable[[PhysicalOffset, Callable[[], object]], object] = _nobody_minds
        """(start, go on): called before log files go; `start` is the physical offset at which the log will start. The
        files go when `go on` is called, now or later; a look half a minute later does not wait for it any more."""
        self.after_drop: Callable[[], object] = _nothing_follows
        """Called when all that a round took out has been deleted."""
        self._log = log
        self._folders = folders
        self._config = config
        self._files = files
        self._worker = worker
        self._drop_below = drop_below
        self._derived = derived
        self._ages = FileAges(clock, ())
        self._under_way = False
        self._go_on: Callable[[], object] = _nothing_follows
        self._waits_until = math.inf
        """Monotonic time from which on a look goes on with the round that `before_drop` puts off."""
        self._stopped = False
        self._left: list[Removable] = []
        """Files that could not be deleted; they come first in the next round."""
        self._rounds_asked = 0
        self._followed = log.min_offset
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    async def start(self) -> None:
        """Begin the rounds; the first look is now, so that a full disk refuses puts from the start."""
        await super().start()
        self._ages = FileAges(self._clock, self._log.files)
        self.look()
        self.every("rounds", self._config.clean_interval_ms / 1000, self.look)

    async def stop(self) -> None:
        """Delete no more; a file the worker has begun with goes."""
        self._stopped = True
        await super().stop()

    def ask(self) -> None:
        """Let the next rounds delete expired files at any hour (admin request)."""
        self._rounds_asked = _MANUAL_ROUNDS

    def look_again(self) -> None:
        """Look now, also at queue and index files below a start of the log that was followed before (admin request)."""
        self._followed = PhysicalOffset(-1)
        self.look()

    def follow_again(self) -> None:
        """Queue files below the log's begin could not be taken out: the next round tries again."""
        self._followed = PhysicalOffset(-1)

    # -- one round -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Have the worker look at the disk; the loop decides which files go."""
        if self._under_way:
            if self._clock.monotonic() >= self._waits_until:
                self._warnings.warn("hearing", "old files go before their unread messages are counted: that takes long")
                self._go_on()
            return
        self._under_way = True
        self._ages.look(self._log.files)
        paths = [mapped.path for mapped in self._log.files[: self._config.delete_batch_max]]
        self._worker.submit(lambda: self._measure(paths), self._measured)

    def _measure(self, paths: list[Path]) -> DiskView:
        """Runs on the worker."""
        used = {}
        room = 0, 0
        for folder in self._folders:
            try:
                total, free = room = self._files.disk_usage(folder)
                used[folder] = 100.0 * (total - free) / total if total else -1.0
            except OSError:
                used[folder], room = -1.0, (0, 0)
        return DiskView(used, self._modified(paths), room)

    def _modified(self, paths: list[Path]) -> list[int]:
        """Of the oldest files, up to the first that does not tell: the files behind it wait for the next round."""
        modified_ms = []
        for path in paths:
            try:
                modified_ms.append(self._files.modified_ms(path))
            except OSError as error:
                self._warnings.warn("age", "the age of %s cannot be read: %s", path, error)
                break
        return modified_ms

    def _measured(self, disk: DiskView | None, error: Exception | None) -> None:
        """Decide how many files go; the user of the store hears of it first."""
        count = 0
        try:
            if disk is None:
                raise error or StoreError("the worker came back without a view of the disk")
            folder, percent = disk.fullest
            self.disk_percent, self.disk_room = percent, disk.room
            self._judge(folder, percent)
            count = self._log.may_drop(self.count_to_drop(disk))
        except Exception as problem:
            self._drop(0, problem)
            return
        is_dropped = False

        def go_on() -> None:
            nonlocal is_dropped
            if not is_dropped and not self._stopped:
                is_dropped = True
                self._waits_until = math.inf
                self._drop(count)

        self._go_on, self._waits_until = go_on, self._clock.monotonic() + _HEARING_SECONDS
        if not count or not call(self.before_drop, self._log.files[count].start, go_on):
            go_on()

    def _drop(self, count: int, problem: Exception | None = None) -> None:
        """Every file that is taken out goes to `_remove`, also when a step raises: no other part would delete it."""
        dropped, self._left = self._left, []
        try:
            if problem is not None:
                raise problem
            dropped += self._log.drop_first(count)
            self._rounds_asked = max(0, self._rounds_asked - 1)
            self._follow(dropped)
            self.health.set("retention/round", "")
        except Exception as problem:
            self._warnings.error("round", problem, "old files are not all taken out, the next round tries: %r", problem)
            self.health.set("retention/round", f"old files are not all taken out: {problem!r}")
        finally:
            self._remove(dropped, call_after=bool(dropped))

    def _follow(self, dropped: list[Removable]) -> None:
        """Queue and index files below the log's begin; after an error they are looked at again."""
        begin = self._log.min_offset
        if begin > self._followed:
            for removable in self._drop_below(begin):
                dropped.append(removable)
            self._followed = begin

    def _judge(self, folder: Path, percent: float) -> None:
        """Set and clear the disk-full verdict; between the two levels it stays as it is."""
        if percent > self._config.disk_warning_percent:
            self.disk_full = (
                f"disk full: {percent:.1f} % of the disk of {folder} is used,"
                f" diskSpaceWarningLevelRatio is {self._config.disk_warning_percent}"
            )
            self._warnings.warn("full", "%s; puts are refused until space is free", self.disk_full)
        elif percent <= self._config.disk_clean_forcibly_percent:
            self.disk_full = ""

    def count_to_drop(self, disk: DiskView) -> int:
        """How many of the oldest files this round may drop."""
        config = self._config
        percent = disk.fullest[1]
        if config.clean_forcibly and percent > config.disk_clean_forcibly_percent:
            return len(disk.modified_ms)
        hour = time.localtime(self._clock.now_ms() / 1000).tm_hour
        crowded = percent > config.disk_used_max_percent or percent < 0
        if not (crowded or hour in config.delete_hours or self._rounds_asked):
            return 0
        count, derived = 0, self._derived()
        for mapped, modified_ms in zip(self._log.files, disk.modified_ms, strict=False):
            if mapped.end > derived:  # a crash could leave queues that lack its records
                break
            if self._ages.age_ms(mapped, modified_ms) < config.file_reserved_ms:
                break
            count += 1
        return count

    def _remove(self, dropped: list[Removable], *, call_after: bool = True) -> None:
        """One file per call of the worker, so that a sync of the same disk can come in between.

        None once the store stops, for the folder may have another owner then: what is left comes back with the next
        start, and is dropped again.
        """
        if not dropped or self._stopped:
            self._under_way = False
            if call_after and not self._stopped:
                call(self.after_drop)
            return
        mapped, rest = dropped[0], dropped[1:]

        def removed(_result: None, error: Exception | None) -> None:
            if error is None or isinstance(error, FileNotFoundError):
                _log.info("deleted %s", mapped.path)
                self._remove(rest)
            else:
                _log.warning("cannot delete %s, it is tried again: %s", mapped.path, error)
                self._remove(self._leave(mapped, rest))

        self._worker.submit(mapped.remove, removed)

    def _leave(self, mapped: Removable, rest: list[Removable]) -> list[Removable]:
        """Keep one that cannot be deleted for the next round; what of the rest may go before it.

        Of the log's files no later one may: with a gap the next start would not open it.
        """
        is_log = mapped.path.parent == self._log.folder
        kept = [each for each in rest if is_log and each.path.parent == mapped.path.parent]
        self._left += [mapped, *kept]
        return [each for each in rest if each not in kept]


def _nobody_minds(_log_start: PhysicalOffset, go_on: Callable[[], object]) -> None:
    """Until the broker is there."""
    go_on()


def _nothing_follows() -> None:
    """Until the store is there."""
