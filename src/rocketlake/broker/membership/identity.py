"""The id that this broker has in its group, in the files of Apache's broker.

Owns        the two files, their text, the order in which they change; the check that they belong to this broker.
Must not know   the controller that gives ids.

Files (Apache's ReplicasManager): `brokerIdentity` is `cluster#broker#id`. Before an id is applied for,
`brokerIdentity-temp` says `cluster#broker#id#checkCode`: after a crash the same application is made again, and the
controller knows it by its check code. Apache's broker removes a file before it writes it anew; ours renames.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError

__all__ = ["FILE_NAME", "TEMP_NAME", "Application", "IdentityFiles"]

FILE_NAME = "brokerIdentity"
TEMP_NAME = "brokerIdentity-temp"
_SEPARATOR = "#"


class Application(NamedTuple):
    """An id that is applied for."""

    broker_id: int
    check_code: str
    """`address;milliseconds`: tells this application from those of other brokers."""


class IdentityFiles:
    """The files of one broker. All methods block, and raise OSError when the disk refuses."""

    def __init__(self, folder: Path, files: Files, cluster_name: str, broker_name: str) -> None:
        self._file = folder / FILE_NAME
        self._temp = folder / TEMP_NAME
        self._files = files
        self._names = cluster_name, broker_name

    def broker_id(self) -> int | None:
        """The id that this broker has; None if it has none yet. Raises StoreError, UsageError."""
        parts = self._read(self._file, 3)
        return None if parts is None else int(parts[2])

    def application(self) -> Application | None:
        """The application that was not answered before the last stop. Raises StoreError, UsageError."""
        parts = self._read(self._temp, 4)
        return None if parts is None else Application(int(parts[2]), parts[3])

    def apply(self, application: Application) -> None:
        """The id is about to be applied for."""
        self._write(self._temp, str(application.broker_id), application.check_code)

    def applied(self, broker_id: int) -> None:
        """The id is ours, for good."""
        self._write(self._file, str(broker_id))
        self.give_up()

    def give_up(self) -> None:
        """The application is over."""
        if self._files.exists(self._temp):
            self._files.remove(self._temp)
            self._files.sync_dir(self._temp.parent)

    def _write(self, path: Path, *more: str) -> None:
        fresh = path.with_name(path.name + ".tmp")
        self._files.make_dirs(path.parent)
        self._files.write_bytes(fresh, _SEPARATOR.join((*self._names, *more)).encode())
        self._files.rename(fresh, path)
        self._files.sync_dir(path.parent)

    def _read(self, path: Path, count: int) -> list[str] | None:
        if not self._files.exists(path):
            return None
        text = self._files.read_bytes(path).decode(errors="replace").strip()
        parts = text.split(_SEPARATOR)
        if len(parts) != count or not parts[2].isascii() or not parts[2].isdigit():
            raise StoreError(
                f"this is no id of a broker: {text[:100]!r}",
                path=str(path),
                hint="write cluster#broker#id with the id that `rocketlake replicas` shows for this address, or remove"
                " the file and clean the old id on the controller",
            )
        if (parts[0], parts[1]) != self._names:
            raise UsageError(
                f"this store belongs to broker {parts[1]} of cluster {parts[0]}, the settings say"
                f" {self._names[1]} of {self._names[0]}",
                where=str(path),
                hint="correct brokerName and brokerClusterName, or set storePathRootDir to another folder",
            )
        return parts
