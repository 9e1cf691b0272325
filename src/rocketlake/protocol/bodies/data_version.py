"""DataVersion as JSON, inside many bodies and in some headers.

Owns        its shape.
Must not know   the tables that count.
"""

from __future__ import annotations

from rocketlake.model.topic import DataVersion
from rocketlake.protocol.bodies.body import Body


class DataVersionBody(Body, kw_only=True):
    """How new a table is; equal when all three are. QUERY_DATA_VERSION sends it alone. `timestamp` in ms."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def to_model(self) -> DataVersion:
        """The model value."""
        return DataVersion(counter=self.counter, state_version=self.state_version, timestamp=self.timestamp)

    @classmethod
    def from_model(cls, version: DataVersion) -> DataVersionBody:
        """From the model value."""
        return cls(counter=version.counter, state_version=version.state_version, timestamp=version.timestamp)
