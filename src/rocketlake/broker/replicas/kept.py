"""A change of topics or groups that is kept: on the disk of this broker, and on those of its slaves.

Owns        the wait for both.
Must not know   what has changed, how a slave copies it.

What is answered after this wait survives the loss of the master. A slave that is connected but does not copy the change
in time is named in the answer; the change is in force on the master all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.callbacks import call
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.replicas.editions import Editions
from rocketlake.broker.tables.table_saver import NOT_SAVED, TableSaver

__all__ = ["Kept"]

_log = get_logger(__name__)

_SEND_SECONDS = 0.5
"""So long a send waits for slaves to have its topic. Its message has to be copied in the time that is left."""


class Kept:
    """The saver of this broker and the slaves that copy its tables."""

    def __init__(self, saver: TableSaver, editions: Editions) -> None:
        self._saver = saver
        self._editions = editions
        self._warnings = RareWarnings(_log)

    def when_kept(self, done: Callable[[str], None]) -> None:
        """Call `done` when all changes made so far are kept: with "", or with the reason why they are not."""
        reasons: list[str] = []

        def add(reason: str) -> None:
            reasons.append(reason)
            if len(reasons) == 2:
                call(done, "; ".join(filter(None, reasons)))

        self._editions.when_copied(lambda late: add(late and f"the change is in force on the master, but {late}"))
        self._saver.when_saved(lambda saved: add("" if saved else NOT_SAVED))

    def when_saved(self, done: Callable[[bool], None]) -> None:
        """The same for a message that waits for its topic: a slave that is late is logged, and does not stop it."""
        left = 2
        is_saved = True

        def one_done(saved: bool) -> None:
            nonlocal left, is_saved
            left, is_saved = left - 1, is_saved and saved
            if not left:
                call(done, is_saved)

        def copied(late: str) -> None:
            if late:
                self._warnings.warn("late", "a new topic is used before all slaves have it: %s", late)
            one_done(True)

        self._editions.when_copied(copied, _SEND_SECONDS)
        self._saver.when_saved(one_done)
