"""The base of all tables of the broker that live in a JSON file.

Owns        loading and saving of the file, whether it must be saved, the data version of the table.
Must not know   the contents of a table; when it is saved in time (table_saver.py).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.java.json_text import parse, to_text
from rocketlake.model.topic import DataVersion

__all__ = ["SavedTable", "quoted"]


class SavedTable(ABC):
    """A table in memory, saved as one JSON file with a data version."""

    holds: str
    """The name of the table in error texts."""
    without_file: str
    """The effect of moving a broken file away, in the hint of error texts."""

    def __init__(self, path: Path, files: Files, clock: Clock, *, version_step: int = 1) -> None:
        """`version_step`: changes that make a new data version."""
        self.path = path
        self.changed = False
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self._files = files
        self._clock = clock
        self._version_step = version_step
        self._changes = 0

    @property
    def edition(self) -> int:
        """Grows with every change since the broker started; another life of the broker counts anew."""
        return self._changes

    @abstractmethod
    def to_text(self) -> str:
        """The whole text of the file."""

    def text_parts(self) -> Iterator[str]:
        """The same text in parts, none of which takes long to make. The table may change between two parts.

        Such a change is in the text or not; in any case the table is saved once more.
        """
        yield self.to_text()

    @abstractmethod
    def _take(self, wire: dict[str, Any]) -> None:
        """Take the contents of the file in place of the present ones. ValueError, TypeError, ... if they make no sense.

        All or nothing: a table that raises is as it was.
        """

    def load(self) -> None:
        """Read the file, if it exists. StoreError if neither the file nor its copy makes sense."""
        text = load_text(self._files, self.path)
        if text is None:
            return
        self._read(text, hint=f"restore it from {self.path}.bak, or move it away {self.without_file}")
        self.changed = False

    def replace(self, text: str | bytes, *, filled: str = "") -> bool:
        """Take the contents of this text in place of the present ones: a slave gets the text of its master's table.

        The data version is the one of the text. `filled`: a member of the text that must have entries; False, nothing
        replaced, if it has none. StoreError if the text makes no sense; the table is as it was then.
        """
        if not self._read(text, hint="ask the master for its table again", filled=filled):
            return False
        self.changed = True
        self._changes += 1
        return True

    def _read(self, text: str | bytes, *, hint: str, filled: str = "") -> bool:
        try:
            wire = parse(text)
            if filled and not wire.get(filled):
                return False
            version = self._version_in(wire.get("dataVersion") or {})
            self._take(wire)
        except (UsageError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise StoreError(f"{self.holds} cannot be read: {error}", path=str(self.path), hint=hint) from error
        self.data_version = version
        return True

    def save(self) -> None:
        """Write the file now, if the table has changed. OSError if the disk refuses; the table stays changed then."""
        if self.changed:
            save_text(self._files, self.path, self.to_text())
            self.changed = False

    def _note_change(self) -> None:
        self.changed = True
        self._changes += 1
        if self._changes % self._version_step == 0:
            version = self.data_version
            self.data_version = version.next(self._clock.now_ms(), version.state_version)

    def _version_text(self) -> str:
        """The data version as the first member of the file's object."""
        version = self.data_version
        return (
            f'{{\n\t"dataVersion":{{\n\t\t"counter":{version.counter},\n\t\t"stateVersion":{version.state_version},'
            f'\n\t\t"timestamp":{version.timestamp}\n\t}},'
        )

    def _version_on_wire(self) -> dict[str, int]:
        version = self.data_version
        return {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}

    def _version_in(self, wire: dict[str, Any]) -> DataVersion:
        return DataVersion(
            counter=int(wire.get("counter", 0)),
            state_version=int(wire.get("stateVersion", 0)),
            timestamp=int(wire.get("timestamp", self.data_version.timestamp)),
        )


def quoted(text: str) -> str:
    """The text as a JSON string."""
    return to_text(text).decode()
