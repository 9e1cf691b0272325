"""A store of a group whose register is lost for good, made ready for a new register.

Owns        how far its log goes, which of its files are put aside, the order of the steps.
Must not know   what the files of an id and of a life say, controllers, the command line.

The lost register knew who holds all that was acknowledged; nobody does now but the logs. Of all stores of the group the
one whose log goes furthest holds it. So each store is told how far that is before it loses its id: a broker that is
started in between is refused by the new register, as it has no member of its id.

Epochs without a byte go, too: a new register counts on from the last record of the furthest log, and would take the
word of a broker that knows a higher number for that of another group.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Closeable, Files
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.broker.replicas.furthest_log import FILE_NAME as FURTHEST
from rocketlake.broker.replicas.furthest_log import FurthestLog, LogPosition
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs import epoch_file
from rocketlake.replication.epochs.kept import FILE_NAME as EPOCHS
from rocketlake.store.paths import StorePaths
from rocketlake.store.reader import StoreReader

__all__ = ["Rebuild"]


class Rebuild:
    """One store, held from other processes until it is closed."""

    def __init__(
        self, root: Path, tied: Iterable[str], *, commit_log: Path | None = None, files: Files | None = None
    ) -> None:
        """`tied`: names of the files that only the lost register knew. `commit_log` if it lies elsewhere.

        Raises StoreError if a broker runs on the store, or if it is none of a broker under a controller; OSError.
        """
        self._files = files or PosixFiles()
        self._root = root
        self._tied = tuple(tied)
        paths = StorePaths(root, commit_log)
        if not any(self._files.exists(root / name) for name in (EPOCHS, FURTHEST, *self._tied)):
            raise StoreError(
                "no broker under a controller has used this store",
                path=str(root),
                hint="give the storePathRootDir of a broker with enableControllerMode=true",
            )
        self._lock: Closeable = self._files.lock(paths.lock)
        try:
            self._epochs = epoch_file.load(self._files, root / EPOCHS)
            with closing(StoreReader(root, commit_log=commit_log, files=self._files)) as reader:
                found = reader.log_end()
        except BaseException:
            self.close()
            raise
        end = found.physical_offset
        self.damage = found.torn
        """What lies behind that end, "" if there is nothing: a start may find more sound records there."""
        self.position = LogPosition(self._epochs.number_at(PhysicalOffset(end - 1)), end)
        """How far the log of this store goes."""
        self._with_bytes = self._epochs.cut(PhysicalOffset(end))

    def close(self) -> None:
        """Let others in again."""
        self._lock.close()

    def check(self, furthest: LogPosition) -> None:
        """Raises UsageError if the log of this store goes further."""
        if self.position > furthest:
            raise UsageError(
                f"the log of this store goes to {self.position}, further than {furthest}",
                where=str(self._root),
                hint=f"give --furthest {self.position}, or more if another log goes further, for each store of the"
                " group, also for those that were given less",
            )

    def aside(self) -> list[tuple[str, str]]:
        """Name of each file that goes, and the name under which it is kept."""
        names = [name for name in self._tied if self._files.exists(self._root / name)]
        if self._with_bytes != self._epochs:
            names.append(EPOCHS)  # a shorter one takes its place
        return [(name, self._free_name(name)) for name in names]

    def run(self, furthest: LogPosition) -> None:
        """Free the store of the lost register. May be repeated, also after a crash. Raises UsageError, OSError."""
        self.check(furthest)
        FurthestLog(self._root, self._files).note(furthest)
        for name, kept in self.aside():
            if name != EPOCHS:
                self._files.rename(self._root / name, self._root / kept)
                continue
            self._files.write_bytes(self._root / kept, epoch_file.encode(self._epochs))
            epoch_file.save(self._files, self._root / name, self._with_bytes)
            self._epochs = self._with_bytes
        self._files.sync_dir(self._root)

    def _free_name(self, name: str) -> str:
        names = (f"{name}.old{number or ''}" for number in range(1000))
        return next(each for each in names if not self._files.exists(self._root / each))
