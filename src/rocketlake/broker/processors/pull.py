"""PULL_MESSAGE and LITE_PULL_MESSAGE: a consumer reads a queue.

Owns        the order of the steps of a pull, and which of them are done again after it waited.
Must not know   the checks (rights/read.py), how a queue is read and a pull waits (reads/), how records are found.

A pull is served when it comes. It waits if it finds nothing yet and allows the broker to hold it, or if its records
must be read from disk first. A pull that waited is served a second time from the first check on (its group may be gone
by then), and is answered even if it finds nothing. A worker may have to read several times for it: the entries of the
queue, then records.
"""

from __future__ import annotations

from functools import partial

from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.reads.progress import ReadProgress
from rocketlake.broker.reads.pull_answer import code_of, nothing_to_read, refusal_of, reply_of
from rocketlake.broker.reads.queue_reads import QueueReads
from rocketlake.broker.reads.replica_choice import ReplicaChoice
from rocketlake.broker.reads.waiting_pulls import WaitingPulls
from rocketlake.broker.rights.read import INNER_TOPICS, Admission, ReadRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.pull import PULL_SUSPEND, PullHeader
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["Pull"]

_LOADS_MAX = 100
"""So often a worker reads for one pull: entries, then records; a search for lost entries goes on piece by piece
(queue_mend.py). Memory that loses them by then is waited for."""
_PATIENCE_SECONDS = 2.0
"""A pull that asks for no wait is held so long at most for a quota: its client may give up after 3 s."""


class Pull:
    """Reads for consumers. Its parts are public: runs of plain pulls (hot/pull_runs.py) are made of the same."""

    def __init__(
        self,
        rights: ReadRights,
        reads: QueueReads,
        progress: ReadProgress,
        waiting: WaitingPulls,
        replicas: ReplicaChoice,
        gate: AccessGate,
        *,
        quotas: Quotas,
    ) -> None:
        """`gate`: asked who may read the broker's own messages."""
        self.rights = rights
        self.reads = reads
        self.progress = progress
        self.waiting = waiting
        self.replicas = replicas
        self.quotas = quotas
        self._gate = gate

    def pull(self, request: Request) -> Reply | Held:
        """Serve both codes: answer at once, or have the pull wait."""
        header = request.header(PullHeader)
        try:
            admission = self._admit(request, header)
        except Refused as refused:
            return refusal_of(refused)
        may_wait = not self.waiting.is_closed
        if not self.replicas.serves:
            return self._to_master(request, header)
        if self.quotas.is_any:
            if (slowed := self._slowed(request, header, 0)) is not None:
                return slowed
            self._spend(request, header, 1, 0)
        result = self.reads.read(header, admission, wait=not may_wait)
        if result.status is GetStatus.NOT_IN_MEMORY:
            reply = self.waiting.load(request, result.cold, partial(self._pull_again, header=header, loads=1))
            if reply is HELD:
                self.progress.keep_brought(header)
            return reply
        self._note_read(request, header, result)
        if result.status is not GetStatus.OFFSET_RESET:  # that pull brings the offset the group was moved away from
            self.progress.keep_brought(header)
        code, next_id = self._placed(result, header, admission)
        if code is ResponseCode.PULL_RETRY_IMMEDIATELY and self.replicas.is_slave:
            return self._to_master(request, header)
        if code is ResponseCode.PULL_NOT_FOUND and may_wait and header.sys_flag & PULL_SUSPEND:
            return self.waiting.hold(request, header, admission, partial(self._pull_again, header=header))
        return reply_of(code, result, admission.topic.sys_flag, admission.group.sys_flag, next_id)

    def _admit(self, request: Request, header: PullHeader) -> Admission:
        if header.topic in INNER_TOPICS:
            self._gate.check_admin(request, f"{request_name(request.code)} of {header.topic}")
        return self.rights.admit(request.code, header)

    def _note_read(self, request: Request, header: PullHeader, result: GetResult) -> None:
        self.progress.note_read(header, result)
        if self.quotas.is_any and result.status is GetStatus.FOUND:
            self._spend(request, header, 0, result.bytes)

    def _spend(self, request: Request, header: PullHeader, requests: int, size: int) -> None:
        self.quotas.spend_out(request.user or request.asker.user, header.topic, requests, size)

    def _slowed(self, request: Request, header: PullHeader, waited: float) -> Reply | Held | None:
        """A pull above a quota waits until it may read; one that cannot wait so long is refused. None: it may read.

        `waited`: seconds before this look.
        """
        pause = self.quotas.pause_out(request.user, header.topic)
        if pause is None:
            return None
        patience = header.suspend_timeout_millis / 1000 if header.sys_flag & PULL_SUSPEND else _PATIENCE_SECONDS
        seconds = min(pause.seconds, patience - waited)
        if self.waiting.is_closed or seconds <= 0:
            return self.quotas.busy(request, pause)

        def look_again(request: Request) -> Reply | Held:
            if (slowed := self._slowed(request, header, waited + seconds)) is not None:
                return slowed
            self._spend(request, header, 1, 0)
            return self._pull_again(request, header)

        return self.waiting.wait(request, header, int(seconds * 1000) + 1, look_again)

    def _placed(self, result: GetResult, header: PullHeader, admission: Admission) -> tuple[ResponseCode, int]:
        """(response code, broker id of the next pull)."""
        code = code_of(result.status, header.queue_offset)
        return self.replicas.place(code, result, header.queue_offset, admission.group)

    def _to_master(self, request: Request, header: PullHeader) -> Reply | Held:
        """Send the consumer to the master: after a while, if it lets us wait."""
        ends, code = self.reads.ends(header), ResponseCode.PULL_RETRY_IMMEDIATELY
        reply = nothing_to_read(header.queue_offset, ends, "ask the master", code)
        if self.waiting.is_closed or not header.sys_flag & PULL_SUSPEND:
            return reply
        return self.waiting.pause(request, header, reply)

    def serve_again(self, request: Request) -> None:
        """Answer a pull that waited as a part of a run."""
        self.waiting.resume(request, partial(self._pull_again, header=request.header(PullHeader)))

    def _pull_again(self, request: Request, header: PullHeader, loads: int = 0) -> Reply | Held:
        """Answer a pull that waited, by the messages that are there now.

        A peer that does not read its answers is told that there is nothing: it may have hundreds of pulls held, and the
        records of all of them would wait in memory. Its next pull is read when the peer reads again.
        """
        if not request.asker.writable:
            return nothing_to_read(header.queue_offset, self.reads.ends(header), "the link is full")
        try:
            admission = self._admit(request, header)
        except Refused as refused:
            return refusal_of(refused)
        if not self.replicas.serves:
            return self._to_master(request, header)
        result = self.reads.read(header, admission, wait=loads >= _LOADS_MAX or self.waiting.is_closed)
        if result.status is GetStatus.NOT_IN_MEMORY:
            again = partial(self._pull_again, header=header, loads=loads + 1)
            return self.waiting.load(request, result.cold, again)
        self._note_read(request, header, result)
        code, next_id = self._placed(result, header, admission)
        return reply_of(code, result, admission.topic.sys_flag, admission.group.sys_flag, next_id)
