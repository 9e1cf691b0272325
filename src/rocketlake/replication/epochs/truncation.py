"""Take a replica's log back to where it agrees with its master's, safe in a crash at each step.

Owns        the order of the cut of the log and of its epochs; when a cut is refused.
Must not know   how logs are compared (history.py), links, consumer offsets (`MessageStore.after_cut` tells of a cut).

The log goes first, its epochs after it: bytes of an epoch that the file does not name would count as those of an older
one. A crash in between leaves epochs that begin behind the log; `fit` takes them out at the next start.
"""

from __future__ import annotations

from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.kept import KeptEpochs
from rocketlake.store.message_store import MessageStore

__all__ = ["Truncation"]

_log = get_logger(__name__)


class Truncation:
    """Cuts of one store and its epochs."""

    def __init__(self, store: MessageStore, epochs: KeptEpochs) -> None:
        self._store = store
        self._epochs = epochs

    async def fit(self) -> None:
        """After a start: a torn tail is gone, a crash may have come between the two cuts, old files have expired.

        An epoch that begins where the log ends stays: this broker may lead in it. Raises OSError.
        """
        await self._epochs.cut(self._store.max_physical_offset + 1)
        await self._epochs.drop_before(self._store.min_physical_offset)

    async def to(self, end: PhysicalOffset) -> None:
        """Forget the log from `end` on, and epochs that have no byte then. Nothing may be appended meanwhile.

        Raises StoreError if no record starts there, or if what lies before `end` is not all that is confirmed: no
        master that has all confirmed messages asks for that. One that the operator forced may: then this replica has
        to be filled anew, so what it has can be saved before. Raises OSError, StoreError if the disk refuses.

        A log that is damaged loses all from the damage on, to be copied anew, if the master has all that is confirmed.
        """
        store = self._store
        end, why = max(end, store.min_physical_offset), "the master has other records"
        own_end, confirmed = store.max_physical_offset, store.durability.confirmed.value
        damaged_from = store.damaged_from
        if damaged_from is not None and confirmed <= end and damaged_from < end:
            end, why = damaged_from, "it is damaged there, the rest is copied anew"
            store.durability.confirmed.set_back(end)
        if end < own_end:
            await store.cut(end)
            _log.warning("the log was cut from %d to %d: %s", own_end, end, why)
        elif damaged_from is not None:
            await store.end_is_sound()
        await self._epochs.cut(end)
