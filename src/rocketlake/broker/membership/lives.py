"""The lives of this broker: one for each start of its process, told apart by words; and the newest epoch it knows.

Owns        the file, the words under which a controller may know this store.
Must not know   who is told, what follows.

A copy of the store that is started elsewhere has a life of its own. The controller knows the last one that registered:
it ends the epoch of the one before, and sees an older copy by a word that the copy does not know.
The epoch is kept because the log may have nothing of it: so a register that was put back from a backup is found out.
With the masters of older epochs the controller tells from which one on it gave numbers again.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from rocketlake.base.disk.seam import Files
from rocketlake.protocol.life_mark import life_mark

__all__ = ["FILE_NAME", "Lives"]

FILE_NAME = "memberLives"
_WORD_BYTES = 8
_WORDS_MAX = 8
"""Words kept in the file: the last confirmed one, and of the starts since then the 7 newest, this one included."""
_MASTERS_MAX = 31
"""As many as the register keeps, with the newest one."""


class Lives:
    """The file of one broker. All methods block, and raise OSError when the disk refuses."""

    def __init__(self, path: Path, files: Files) -> None:
        self.life = ""
        """The word of this process; empty before `load`."""
        self.before: list[str] = []
        """Those of earlier ones, under which this store may be registered."""
        self.epoch = -1
        """The newest epoch with a master that was heard of."""
        self.master: int | None = None
        """The master of that epoch; None: it is not known."""
        self.masters_before: list[tuple[int, int]] = []
        """Older epochs that were heard of, each with its master, newest first."""
        self._path = path
        self._files = files

    @property
    def mark(self) -> str:
        """What controllers answer of our word."""
        return life_mark(self.life)

    def load(self) -> None:
        """Begin a life, once. It is on disk before the controller hears of it. A file that cannot be read is none."""
        if self.life:
            return
        text = self._files.read_bytes(self._path).decode(errors="replace") if self._files.exists(self._path) else ""
        head, _, words = text.partition(":")
        newest, *older = head.split(",")
        epoch, _, master = newest.partition(" ")
        if epoch.isdigit():
            pairs = [each.split(" ") for each in older]
            self.masters_before = [(int(pair[0]), int(pair[1])) for pair in pairs if _is_numbers(pair)]
            self.epoch, self.master = int(epoch), int(master) if master.isdigit() else None
        known = words.split()
        self.before = [*known[:1], *known[1:][2 - _WORDS_MAX :]]
        self.life = secrets.token_hex(_WORD_BYTES)
        self._save()

    def told(self) -> None:
        """The controller has recorded this life."""
        if self.before:
            self.before = []
            self._save()

    def note(self, epoch: int, master: int | None) -> None:
        """There is such an epoch, with this master; None: it is not known who."""
        if epoch > self.epoch or (epoch == self.epoch and self.master is None is not master):
            if self.master is not None:
                self.masters_before = [(self.epoch, self.master), *self.masters_before][:_MASTERS_MAX]
            self.epoch, self.master = epoch, master
            self._save()

    def _save(self) -> None:
        fresh = self._path.with_name(self._path.name + ".tmp")
        master = "" if self.master is None else self.master
        heard = ",".join(f"{epoch} {of}" for epoch, of in ((max(self.epoch, 0), master), *self.masters_before))
        text = f"{heard}:{' '.join((*self.before, self.life))}"
        self._files.make_dirs(self._path.parent)
        self._files.write_bytes(fresh, text.encode())
        self._files.rename(fresh, self._path)
        self._files.sync_dir(self._path.parent)


def _is_numbers(pair: list[str]) -> bool:
    return len(pair) == 2 and all(each.isdigit() for each in pair)
