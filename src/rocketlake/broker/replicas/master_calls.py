"""What a slave asks its master for its tables.

Owns        the requests, the checks of the answers.
Must not know   when a table is copied, how it is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocketlake.base.errors import ProtocolError, RemoteError
from rocketlake.base.settings.config_file import parse_properties
from rocketlake.net.client import NetClient
from rocketlake.net.link_pool import split_address
from rocketlake.protocol.bodies.replicas import HaStatus
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.tables import NewerTablesHeader, NewerTablesReplyHeader
from rocketlake.protocol.request_code import RequestCode, request_name
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["MasterCalls", "Newer", "Part"]

_TIMEOUT_MS = 5000
_HOLD_MS = 5000


@dataclass(frozen=True, slots=True)
class Newer:
    """What the master has that is newer."""

    known: str
    """For the next question."""
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a broker in its name now, by its own word."""

    broker_name: str
    is_slave: bool
    is_changing: bool
    """True while it may become a master. An Apache broker never tells."""
    log_end: int
    appends: bool
    """True while an append holds its log."""
    streams: frozenset[str]
    """Each `host:port` under which slaves may find its log."""


class MasterCalls:
    """Requests to one master. LinkError when no answer comes, RemoteError when the master refuses."""

    def __init__(self, net: NetClient, broker_id: Callable[[], int], mark: Callable[[], str] = str) -> None:
        """`mark`: of the life of this process in its group; "" without a controller."""
        self._net = net
        self._broker_id = broker_id
        self._mark = mark

    async def newer(self, master: str, known: str) -> Newer | None:
        """The tables that are newer than `known`, after a wait of some seconds if none is.

        None: the master is Apache's, it does not know this request.
        """
        header = NewerTablesHeader(broker_id=self._broker_id(), mark=self._mark(), known=known, hold_millis=_HOLD_MS)
        answer = await self._ask(master, RequestCode.GET_NEWER_TABLES, header, _HOLD_MS + _TIMEOUT_MS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        _check(answer, master, RequestCode.GET_NEWER_TABLES)
        told = answer.header(NewerTablesReplyHeader)
        return Newer(told.known, frozenset(filter(None, told.changed.split(","))))

    async def table(self, master: str, code: RequestCode, bytes_max: int) -> bytes:
        """The text of a whole table. RemoteError if it is larger than `bytes_max`."""
        answer = await self._ask(master, code, None, _TIMEOUT_MS)
        _check(answer, master, code)
        body = bytes(answer.body_bytes)
        if len(body) > bytes_max:
            raise RemoteError(
                f"the table is {len(body)} bytes large, a slave takes {bytes_max}",
                code=ResponseCode.SYSTEM_ERROR,
                address=master,
                hint="delete topics, groups or offsets that nobody uses",
            )
        return body

    async def log_end(self, master: str) -> int:
        """Where the log of the master ends now."""
        answer = await self._ask(master, RequestCode.GET_BROKER_HA_STATUS, None, _TIMEOUT_MS)
        _check(answer, master, RequestCode.GET_BROKER_HA_STATUS)
        status = HaStatus.decode(answer.body_bytes)
        if not status.master:
            raise RemoteError("it is no master", code=ResponseCode.SYSTEM_ERROR, address=master)
        return status.master_end

    async def part(self, address: str) -> Part:
        """What a broker says of itself. Apache's that has just become a slave cannot answer haStatus any more."""
        config = await self._ask(address, RequestCode.GET_BROKER_CONFIG, None, _TIMEOUT_MS)
        _check(config, address, RequestCode.GET_BROKER_CONFIG)
        runtime = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, None, _TIMEOUT_MS)
        _check(runtime, address, RequestCode.GET_BROKER_RUNTIME_INFO)
        settings = parse_properties(config.body_bytes.decode("utf-8", "replace"))
        figures = KVTable.decode(runtime.body_bytes).table
        end = figures.get("commitLogMaxOffset", "")
        if not end.isdigit():
            raise ProtocolError(f"{address} says that its log ends at {end[:40]!r}")
        role = figures.get("roleNow", "")  # as one word: the two answers are of different moments
        return Part(
            broker_name=settings.get("brokerName", ""),
            is_slave=settings.get("brokerRole") == "SLAVE" and role != "MASTER",
            is_changing=role == "CHANGING",
            log_end=int(end),
            appends=figures.get("pageCacheLockTimeMills", "0") != "0",
            streams=_streams(address, settings),
        )

    def hang_up(self, master: str) -> None:
        """Requests to it that wait end with a LinkError."""
        self._net.give_up(master, "its tables are not copied from it any more")

    async def _ask(self, master: str, code: RequestCode, header: Header | None, timeout_ms: int) -> Command:
        return await self._net.invoke(master, Command.request(code, header), timeout_ms)


def _streams(address: str, settings: Mapping[str, str]) -> frozenset[str]:
    """Of the broker at `address`: where its settings say that it hands out its log. Two brokers of one host differ."""
    host, port = split_address(address)
    stream_port = settings.get("haListenPort", "0")
    if stream_port == "0":
        stream_port = str(port + 1)
    return frozenset(f"{each}:{stream_port}" for each in (host, settings.get("brokerIP2", "")) if each)


def _check(answer: Command, master: str, code: RequestCode) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(
            f"{request_name(code)}: {answer.remark or f'code {answer.code}'}",
            code=answer.code,
            remark=answer.remark or "",
            address=master,
        )
