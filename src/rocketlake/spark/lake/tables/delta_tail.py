"""The newest entries of a Delta log: what a plain commit must know, without the rest of the log.

Owns        which entries are read, what they say, the entry of a plain commit.
Must not know   deltalake, which makes every other commit and decides what is not said here (delta_table.py).

deltalake reads all entries since the last checkpoint, some of them three times, before it commits: on an object store
up to some hundred requests. What matters mostly stands in the newest entry. This relies on four rules of Delta's
protocol: a version is there when its entry is, and the entry is made by put-if-absent; the newest `txn` of an app id
counts; columns change by `metaData` only; what a writer must know changes by `protocol` only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath
from typing import Any

from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.partition_names import ascii_folder
from rocketlake.spark.lake.tables.commit_note import note
from rocketlake.spark.lake.tables.table import BatchPart, DataFile
from rocketlake.spark.places.place import Place

__all__ = ["DESCRIBED", "LOG", "NOTE", "LogTail", "add_path", "entry_path", "plain_entry", "read_tail", "stats_of"]

LOG = "_delta_log"
NOTE = "rocketlake"
"""Our member of an entry's `commitInfo`: the text of a JSON object."""
DESCRIBED = "described"
"""In our note: the version of the description whose columns the table has all; only if its writers need to know no more
than how to append."""
_DEPTH = 4
_ENTRY = ".json"
_DIGITS = 20

Actions = list[dict[str, Any]]


class LogTail:
    """The last entries of a log that ends at `version`, read when they are asked for."""

    def __init__(self, place: Place, version: int) -> None:
        self._place = place
        self.version = version
        self._read: list[Actions] = []

    def last_batch(self, query: str) -> int | None:
        """The newest batch of this query that the table has; None if these entries do not say."""
        for actions in self._newest_first():
            for action in actions:
                if (found := action.get("txn")) is not None and found.get("appId") == query:
                    return int(found["version"])
        return None

    @cached_property
    def described(self) -> int:
        """The description that the table is known to fit, see DESCRIBED; -1 if these entries do not say."""
        for actions in self._newest_first():
            if any("metaData" in action or "protocol" in action for action in actions):
                return -1
            for action in actions:
                said = json.loads(action.get("commitInfo", {}).get(NOTE) or "{}")
                if DESCRIBED in said:
                    return int(said[DESCRIBED])
        return -1

    def _newest_first(self) -> Iterator[Actions]:
        for number in range(min(_DEPTH, self.version + 1)):
            if number == len(self._read):
                data = self._place.get(entry_path(self._place, self.version - number))
                if data is None:
                    return  # expired: a checkpoint has it
                self._read.append([json.loads(line) for line in data.splitlines() if line.strip()])
            yield self._read[number]


def read_tail(place: Place) -> LogTail | None:
    """None if the folder has no log, or no entry for its newest version."""
    folder = place.path / LOG
    # A hint, which a writer may leave out or make late: it only says from where on to list.
    hint = json.loads(place.get(folder / "_last_checkpoint") or b"{}")
    names = place.names(folder, after=_digits(int(hint.get("version", 0))))
    versions = [name[:_DIGITS] for name in names if name[:_DIGITS].isdigit()]
    if not versions or max(versions) + _ENTRY not in names:
        return None
    return LogTail(place, int(max(versions)))


def entry_path(place: Place, version: int) -> PurePath:
    """The entry of a version."""
    return place.path / LOG / f"{_digits(version)}{_ENTRY}"


def _digits(version: int) -> str:
    return f"{version:0{_DIGITS}d}"


def plain_entry(part: BatchPart, description: TableDescription) -> bytes:
    """What deltalake writes for the same append."""
    now = time.time_ns() // 1_000_000
    said = note(part) | {DESCRIBED: str(description.version)}
    parameters = {"mode": "Append", "partitionBy": json.dumps(list(description.partition_by), separators=(",", ":"))}
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": parameters,
        "engineInfo": "rocketlake",
        NOTE: json.dumps(said),
    }
    actions: Actions = [{"commitInfo": info}, *({"add": _add(file, now)} for file in part.files)]
    actions.append({"txn": {"appId": part.query, "version": part.batch}})
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def _add(file: DataFile, now: int) -> dict[str, Any]:
    return {
        "path": add_path(file),
        "partitionValues": dict(file.partition),
        "size": file.bytes,
        "modificationTime": now,
        "dataChange": True,
        "stats": stats_of(file),
    }


def add_path(file: DataFile) -> str:
    """The path of a file that a task wrote, under the table; for people: Delta takes the values from its log."""
    return str(ascii_folder(file.partition) / file.name)


def stats_of(file: DataFile) -> str:
    """What readers are told of a file."""
    return json.dumps({"numRecords": file.rows})
