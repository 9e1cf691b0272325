"""Records of deleted topics: a broker does not serve them, so a scan leaves them out.

Owns        the check of many records against the store's notes of deletions.
Must not know   the form of a note (store/deletions.py), how records were found.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.logs import get_logger
from rocketlake.spark.columns import Records
from rocketlake.spark.record_form import Bools
from rocketlake.store.deletions import DamagedNotes, Deletions
from rocketlake.store.paths import StorePaths

__all__ = ["dead_rows", "notes_of"]

log = get_logger(__name__)


def notes_of(paths: StorePaths, *, fail_on_corrupt: bool) -> Deletions | None:
    """The notes of this store; None without any. Damaged ones are logged, DamagedNotes with `fail_on_corrupt`."""
    try:
        found = Deletions.at(PosixFiles(), paths.deletions)
    except DamagedNotes as error:
        if fail_on_corrupt:
            raise
        log.warning("messages of topics that were deleted may be among the rows: %s", error)
        return None
    return found if found.until else None


def dead_rows(records: Records, deletions: Deletions | None) -> Bools | None:
    """The dead ones among the records; None if there are none."""
    if deletions is None:
        return None
    places = records.physical_offsets
    if int(places.min()) >= deletions.until:
        return None
    dead = np.zeros(len(records), dtype=np.bool_)
    for topic in {*pc.unique(records.topics).to_pylist()} & (deletions.topics.keys() | deletions.queues.keys()):
        is_topic = np.asarray(pc.equal(records.topics, pa.scalar(topic, pa.string())))
        dead |= is_topic & (places < deletions.topics.get(topic, 0))
        for queue_id, begin in deletions.queues.get(topic, {}).items():
            dead |= is_topic & (records.queue_ids == queue_id) & (places < begin)
    return dead if bool(dead.any()) else None
