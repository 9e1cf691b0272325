"""How the members of a group read a topic: by pulls or by pops, and by how many members a queue is shared.

Owns        the modes that administrators have set, messageRequestMode.json.
Must not know   which topics and groups exist, how queues are shared out.

Bytes: docs/internals/store_layout.md. Other names of the file are left as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.protocol.bodies.assignment import RequestModeBody
from rocketlake.protocol.bodies.body import convert, to_json

__all__ = ["RequestModes"]

_MAP = "messageRequestModeMap"


class RequestModes(SavedTable):
    """Modes by topic and group."""

    holds = "the table of request modes"
    without_file = "to have every topic pulled"

    def __init__(self, path: Path, files: Files, clock: Clock) -> None:
        super().__init__(path, files, clock)
        self._modes: dict[str, dict[str, RequestModeBody]] = {}

    def find(self, topic: str, group: str) -> RequestModeBody | None:
        """The mode that was set; None if there is none."""
        return self._modes.get(topic, {}).get(group)

    def set(self, mode: RequestModeBody) -> None:
        """Keep this mode."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._note_change()

    def on_wire(self) -> dict[str, Any]:
        """The table as a JSON value, the answer to GET_ALL_MESSAGE_REQUEST_MODE."""
        modes = {
            topic: {group: to_json(mode) for group, mode in groups.items()} for topic, groups in self._modes.items()
        }
        return {_MAP: modes}

    def to_text(self) -> str:
        """The text of messageRequestMode.json."""
        return to_pretty_text(self.on_wire())

    def _take(self, wire: dict[str, Any]) -> None:
        self._modes = {
            topic: {group: convert(RequestModeBody, mode) for group, mode in groups.items()}
            for topic, groups in (wire.get(_MAP) or {}).items()
        }
