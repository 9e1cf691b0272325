"""What a slave asks its master for before it follows: whether it is known there, and marks of the master's records.

Owns        the requests, also those to a master that does not know ours.
Must not know   what the marks are compared for (replication/epochs/marks.py), what a slave does that is not known.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import RequestHeader
from rocketlake.protocol.headers.query import ViewMessageHeader
from rocketlake.protocol.headers.replicas import (
    CheckLifeHeader,
    CheckLifeReplyHeader,
    RecordMarkHeader,
    RecordMarkReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.auto_switch.slave_end import MastersLog
from rocketlake.replication.epochs.marks import GONE, mark_of

__all__ = ["MasterMarks"]

_TIMEOUT_MS = 1000
"""A promotion of this broker waits for it, if the master has vanished right behind its handshake."""


class MasterMarks:
    """The records of the master at one address, that of a connection to its log: a later master has other ones."""

    def __init__(self, net: NetClient, address: str) -> None:
        """`address`: `host:port` of the master's listener; "": it is not known, so nothing can be compared."""
        self._net = net
        self._address = address

    async def at(self, offset: PhysicalOffset) -> str:
        """The mark of its record at `offset`. Raises LinkError without an answer, RemoteError if it is refused."""
        if not self._address:
            return GONE
        answer = await self._ask(RequestCode.GET_RECORD_MARK, RecordMarkHeader(offset=offset))
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return await self._mark_of_record(offset)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(
                f"the master does not tell which record it has at {offset}: {answer.remark or f'code {answer.code}'}",
                code=answer.code,
                remark=answer.remark or "",
                address=self._address,
            )
        return answer.header(RecordMarkReplyHeader).mark

    async def admit(self, broker_id: int, mark: str) -> MastersLog | None:
        """Return if it counts reports of this id as ours; `mark`: of our life. Raises LinkError, RemoteError.

        Apache's master, and one of ours from before this request, counts everyone, and tells nothing of its log.
        """
        if not self._address:
            return None
        answer = await self._ask(RequestCode.CHECK_LIFE, CheckLifeHeader(broker_id=broker_id, mark=mark))
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            raise RemoteError(
                f"the master does not count this broker: {answer.remark or f'code {answer.code}'}",
                code=answer.code,
                remark=answer.remark or "",
                address=self._address,
            )
        told = answer.header(CheckLifeReplyHeader)
        if told.log_start is None or told.log_file_bytes is None:
            return None
        return MastersLog(PhysicalOffset(told.log_start), told.log_file_bytes)

    async def _mark_of_record(self, offset: PhysicalOffset) -> str:
        """Apache's master gives the record itself, also one that is not confirmed."""
        answer = await self._ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=offset))
        return mark_of(answer.body_bytes) if answer.code == ResponseCode.SUCCESS and answer.body else GONE

    async def _ask(self, code: RequestCode, header: RequestHeader) -> Command:
        return await self._net.invoke(self._address, Command.request(code, header), _TIMEOUT_MS)
