"""Steps that a start could not finish because the disk is full: done later, in order, once there is room.

Owns        the steps that wait, their order, why they wait.
Must not know   the work of a step.

While a step waits the store is read, deletes expired files and topics, and takes no messages: what a message needs to
be stored (the next offset of its queue, say) may be known only when the last step is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rocketlake.base.callbacks import call
from rocketlake.base.disk.seam import is_no_room
from rocketlake.base.errors import StoreError

__all__ = ["LateSteps", "Step"]

Step = Callable[[], bool]
"""One try of a step: True when it is done. Raises OSError, StoreError; the step may be tried again after any result."""


class LateSteps:
    """The steps of one start; `retry` until none is left."""

    def __init__(self) -> None:
        self.reason = ""
        """Why messages are refused; "" when all steps are done."""
        self._steps: deque[tuple[str, Step]] = deque()
        self._waiting: list[Callable[[], object]] = []

    @property
    def are_open(self) -> bool:
        """True while a step waits."""
        return bool(self._steps)

    def then(self, what: str, step: Step) -> None:
        """Do a step now, or behind those that wait; `what` says how things are as long as it waits.

        Raises OSError or StoreError that is no lack of room.
        """
        if not self._steps:
            try:
                if step():
                    return
                self._say(what, None)
            except OSError as error:
                if not is_no_room(error):
                    raise
                self._say(what, error)
        self._steps.append((what, step))

    def retry(self) -> None:
        """Try again, one step after the other as long as they get done."""
        while self._steps:
            what, step = self._steps[0]
            try:
                if not step():
                    return
            except (OSError, StoreError) as error:
                self._say(what, error)
                return
            self._steps.popleft()
        self.reason = ""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            call(done)

    def when_done(self, done: Callable[[], object]) -> None:
        """Call `done` when no step waits any more, perhaps now."""
        if self._steps:
            self._waiting.append(done)
        else:
            done()

    def _say(self, what: str, error: Exception | None) -> None:
        because = f" ({error})" if error is not None else ""
        self.reason = f"disk full since the start: {what}{because}"
