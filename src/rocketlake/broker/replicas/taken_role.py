"""The role that this broker has taken over, or handed over, since its broker.conf was written.

Owns        the file config/takenRole.json, its text, which of the two holds at a start.
Must not know   why a role changes.

The file tells the brokerId of the settings, too: it holds as long as the settings say what they said then. An operator
who changes brokerId in broker.conf decides the role with that.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import parse, to_text
from rocketlake.base.logs import get_logger
from rocketlake.broker.cluster.role import MASTER_ID

__all__ = ["TakenRole"]

_log = get_logger(__name__)


class TakenRole:
    """The file of one broker. All methods block."""

    def __init__(self, path: Path, files: Files, configured_id: int) -> None:
        """`configured_id`: brokerId in the settings."""
        self._path = path
        self._files = files
        self._configured_id = configured_id

    def load(self) -> int:
        """The broker id to start with. StoreError if there is a file that makes no sense."""
        if (taken := self._read()) is None:
            return self._configured_id
        configured_id, broker_id = taken
        if configured_id != self._configured_id or broker_id == self._configured_id:
            return self._configured_id
        _log.warning(
            "brokerId is %d, not %d as in the settings: this broker has taken that role since (%s)",
            broker_id,
            self._configured_id,
            self._path,
        )
        return broker_id

    def led(self) -> bool:
        """True if the last change made this broker the master, whatever the settings say now. Raises as `load`."""
        taken = self._read()
        return taken is not None and taken[1] == MASTER_ID

    def save(self, broker_id: int) -> None:
        """Start with this id from now on. OSError if the disk refuses."""
        values = {"configuredId": self._configured_id, "brokerId": broker_id}
        save_text(self._files, self._path, to_text(values).decode())

    def _read(self) -> tuple[int, int] | None:
        """brokerId in the settings of then, and the one that was taken."""
        text = load_text(self._files, self._path)
        if text is None:
            return None
        try:
            values = parse(text)
            return int(values["configuredId"]), int(values["brokerId"])
        except (KeyError, TypeError, ValueError) as error:
            cure = "move it away: brokerRole and brokerId in broker.conf hold then"
            raise StoreError(f"the role makes no sense: {error!r}", path=str(self._path), hint=cure) from error
