"""The note of a commit about its batch, in the places that Delta and Iceberg have for notes.

Owns        the names in these notes.
Must not know   a format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.tables.table import BatchPart, Committed

__all__ = ["from_note", "note"]


def note(part: BatchPart) -> dict[str, str]:
    """All values are text: Iceberg has nothing else."""
    return {
        "operation": "merge" if part.rule else "append",
        "query": part.query,
        "batch": str(part.batch),
        "attempts": ",".join(part.attempts),
        "offsets": json.dumps(part.offsets),
        "rows": str(sum(file.rows for file in part.files)),
        "files": str(len(part.files)),
        "badRows": str(part.bad_rows),
        "content": part.content.to_text(),
    }


def from_note(said: Mapping[str, Any], version: int, ms: int, operation: str) -> Committed:
    """The commit; commits of other programs have no note."""
    offsets = {
        topic: {
            broker: {queue: (int(first), int(end)) for queue, (first, end) in queues.items()}
            for broker, queues in brokers.items()
        }
        for topic, brokers in json.loads(said.get("offsets") or "{}").items()
    }
    attempts = tuple(part for part in (said.get("attempts") or "").split(",") if part)
    rows, files, bad_rows = (int(said.get(name) or 0) for name in ("rows", "files", "badRows"))
    content = BatchContent.from_text(said.get("content") or "")
    batch = int(said.get("batch") or -1) if said.get("batch") else -1
    return Committed(
        version, ms, operation, said.get("query") or "", batch, attempts, offsets, rows, files, bad_rows, content
    )
