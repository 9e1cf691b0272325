"""The boot of this machine, and whether the log may have lost its end with an earlier one.

Owns        the file that remembers the last boot and the doubt.
Must not know   who is told, what follows.

A process that is killed loses nothing: its bytes are in the page cache. A machine that goes down loses what was not yet
on disk, and this replica may have reported those bytes as stored. The same holds if the file of its id exists but the
store's checkpoint does not: somebody emptied the store. That doubt stays until the controller was told.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.seam import Files

__all__ = ["Boot"]

_KERNEL = Path("/proc/sys/kernel/random/boot_id")
_DOUBT = "short"


class Boot:
    """The boots of one broker. Call `load` before the store starts: it looks at the mark of an unclean stop."""

    def __init__(self, path: Path, files: Files, abort_file: Path, *, identity: Path, checkpoint: Path) -> None:
        """`path`: where the last boot is remembered. `abort_file`: the mark of the store, gone after a clean stop.

        `identity`: the file with the id of this broker. `checkpoint`: that of the store.
        """
        self.boot_id = ""
        """The kernel's name of this boot; "" where there is none: then each start may be one behind a power cut."""
        self.log_whole = True
        """False if records may be missing that this replica has reported as stored."""
        self._path = path
        self._files = files
        self._abort = abort_file
        self._identity = identity
        self._checkpoint = checkpoint

    def load(self) -> None:
        """Find out, and remember it before anything is written. Blocks. Raises OSError."""
        files = self._files
        self.boot_id = files.read_bytes(_KERNEL).decode().strip() if files.exists(_KERNEL) else ""
        last = files.read_bytes(self._path).decode(errors="replace").split() if files.exists(self._path) else []
        last_boot, doubt = (*last, "", "")[:2]
        same_boot = bool(self.boot_id) and last_boot == self.boot_id
        was_emptied = files.exists(self._identity) and not files.exists(self._checkpoint)
        self.log_whole = doubt != _DOUBT and not was_emptied and (same_boot or not files.exists(self._abort))
        self._save()

    def told(self) -> None:
        """The controller has recorded this boot and the doubt: from now on it knows. Blocks. Raises OSError."""
        if not self.log_whole:
            self.log_whole = True
            self._save()

    def _save(self) -> None:
        fresh = self._path.with_name(self._path.name + ".tmp")
        self._files.make_dirs(self._path.parent)
        self._files.write_bytes(fresh, f"{self.boot_id or '-'} {'' if self.log_whole else _DOUBT}".encode())
        self._files.rename(fresh, self._path)
        self._files.sync_dir(self._path.parent)
