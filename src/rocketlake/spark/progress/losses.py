"""Messages that were gone before they were read, from the folder of the source's option `lossTable`.

Owns        the sum over its files.
Must not know   how a loss is found and written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from rocketlake.base.errors import RocketLakeError
from rocketlake.spark.places.location import Location

__all__ = ["lost_messages"]

_FILES_MAX = 10_000
_BYTES_MAX = 1 << 16
_NAME = re.compile(r"loss-.*-(\d+)-(\d+)\.json")


def lost_messages(where: Path | Location) -> int:
    """Messages in all rows of the table; files that cannot be read are passed over.

    On an object store the names are enough: they end in the first offset lost and the one after the last.
    """
    if isinstance(where, Location):
        return _by_names(where)
    total, folder = 0, where
    try:
        files = sorted(folder.glob("loss-*.json"))[:_FILES_MAX]
    except OSError:
        return 0
    for file in files:
        try:
            if file.stat().st_size <= _BYTES_MAX:
                total += int(json.loads(file.read_text())["messages"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return total


def _by_names(location: Location) -> int:
    place = location.open()
    try:
        found = [_NAME.fullmatch(name) for name in place.names(place.path)]
    except RocketLakeError:
        return 0
    return sum(int(match[2]) - int(match[1]) for match in found if match)
