"""Which process a master counts under which broker id: the one that the controller has recorded last.

Owns        the marks of the members' lives as they were told last, the answer to a slave that asks whether it is known.
Must not know   how slaves connect, what follows from a report (in_step.py).

A member that only the controllers cannot reach goes on following while its id is given to another process, on a copy
of its disk. The handshake of the stream has the id alone. So a slave asks here on each of its connections before it
reports the first time, and when the controller tells of another life under an id, all connections of that id end.
What is left are connections of the process that is recorded. Each other life makes the epoch of the set grow, so a
master has heard of it before the controller records a set with that id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketlake.base.errors import RemoteError
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.headers.replicas import CheckLifeHeader, CheckLifeReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.commit_log import CommitLog

__all__ = ["KnownLives"]


class KnownLives:
    """The marks that one broker knows. Apache's controller tells none: then every process counts."""

    def __init__(self, replaced: Callable[[int], object], look_up: Callable[[], object], log: CommitLog) -> None:
        """`replaced`: another process has this id now. `look_up`: have the controller asked. `log`: of this broker."""
        self._marks: Mapping[int, str] = {}
        self._told = -1, -1
        self._replaced = replaced
        self._look_up = look_up
        self._log = log

    def learn(self, told: tuple[int, int], marks: Mapping[int, str]) -> None:
        """The controller has named these marks in this epoch of the master and of the set; older news change nothing.

        `marks`: none if it does not tell.
        """
        if not marks or told < self._told:
            return
        before, self._marks, self._told = self._marks, marks, told
        for broker_id in sorted(before.keys() | self._marks.keys()):
            if before.get(broker_id) != self._marks.get(broker_id):
                self._replaced(broker_id)

    def knows(self, broker_id: int, mark: str) -> bool:
        """True if the process with this mark has this id, as far as it was told."""
        return not self._marks or self._marks.get(broker_id) == mark

    def check(self, request: Request) -> Reply:
        """CHECK_LIFE. One that has registered a moment ago asks again: the controller is asked meanwhile.

        The answer tells of the log what its stream does not: a slave that cannot follow it should know why.
        """
        asked = request.header(CheckLifeHeader)
        if not self.knows(asked.broker_id, asked.mark):
            self._look_up()
            raise RemoteError(
                self._refusal(asked.broker_id),
                code=ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                hint="if it stays so: see that this broker reaches its controllers, which say more; of two brokers on"
                " copies of one store stop one",
            )
        return Reply(header=CheckLifeReplyHeader(log_start=self._log.min_offset, log_file_bytes=self._log.file_size))

    def _refusal(self, broker_id: int) -> str:
        if broker_id in self._marks:
            return f"another process has the id {broker_id} in this group, as far as its master was told"
        return f"this group has no broker {broker_id}, or not yet, as far as its master was told"
