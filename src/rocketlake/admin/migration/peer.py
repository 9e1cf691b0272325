"""One broker of a name, as it answers the requests of administrators.

Owns        the requests to it, what its settings and figures say of its part in the name.
Must not know   the order of the steps of a takeover (takeover.py), output.

An Apache broker that was started as a master tells its part by its settings: they are in force at once when
UPDATE_BROKER_CONFIG changes them, and they are in its broker.conf from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rocketlake.base.errors import ProtocolError
from rocketlake.base.java import json_text
from rocketlake.base.settings.config_file import parse_properties, to_properties
from rocketlake.client.calls.answer import ask
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.role import ChangeRoleHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Peer"]

_CHANGE_MS = 60_000
"""A broker gives up a change of role before that, also while a name server does not answer it."""
_OURS_ONLY = "adminAccess"
"""A setting that Apache's brokers do not have."""


class Peer:
    """A broker at an address. Raises LinkError, RemoteError, ProtocolError."""

    def __init__(self, net: NetClient, address: str) -> None:
        self.address = address
        self._net = net
        self.settings: Mapping[str, str] = {}
        """Those of the last look."""

    async def look(self) -> Mapping[str, str]:
        """Its settings now, by their names in broker.conf."""
        answer = await self.ask(RequestCode.GET_BROKER_CONFIG)
        self.settings = parse_properties(answer.body_bytes.decode("utf-8", "replace"))
        return self.settings

    async def figures(self) -> dict[str, str]:
        """Its runtime figures."""
        return KVTable.decode((await self.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body_bytes).table

    async def log_end(self) -> int:
        """Where its log ends now."""
        return number(await self.figures(), "commitLogMaxOffset", self.address)

    async def table(self, code: RequestCode, *, may_fail: bool = False) -> dict[str, Any]:
        """One of its tables. `may_fail`: {} if it has none."""
        accept = (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED) if may_fail else ()
        answer = await self.ask(code, accept=accept)
        if answer.code != ResponseCode.SUCCESS:
            return {}
        try:
            found = json_text.parse(bytes(answer.body_bytes))
        except json_text.JsonError as error:
            raise ProtocolError(f"a table of {self.address} is no JSON: {error}") from error
        return found if isinstance(found, dict) else {}

    async def change(self, settings: Mapping[str, str]) -> None:
        """Change settings; an Apache broker writes them to its broker.conf."""
        await self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=to_properties(settings).encode())

    async def may_lead(self) -> bool:
        """True if it is a master, or may be one in a moment."""
        role = (await self.figures()).get("roleNow", "")
        await self.look()
        return role in ("MASTER", "CHANGING") or not self.is_slave

    async def change_role(
        self, broker_id: int, other: str = "", members: Iterable[str] = (), *, keeps_tables: bool = False
    ) -> None:
        """Have a broker of ours change its role, see ChangeRoleHeader. RemoteError: it has not, for the reason told."""
        header = ChangeRoleHeader(
            broker_id=broker_id, other=other, members=",".join(members), keeps_tables=keeps_tables
        )
        command = Command.request(RequestCode.CHANGE_ROLE, header)
        await ask(self._net, self.address, command, _CHANGE_MS)

    async def ask(
        self, code: RequestCode, header: Header | None = None, body: bytes = b"", *, accept: tuple[int, ...] = ()
    ) -> Command:
        """One request. RemoteError for an answer that is neither SUCCESS nor in `accept`."""
        accepted = (ResponseCode.SUCCESS, *accept)
        return await ask(self._net, self.address, Command.request(code, header, body), accept=accepted)

    # -- what its settings say -----------------------------------------------------------------------------------------

    @property
    def is_ours(self) -> bool:
        """True for a RocketLake broker."""
        return _OURS_ONLY in self.settings

    @property
    def is_slave(self) -> bool:
        """True if it takes no messages."""
        return self.settings.get("brokerRole") == "SLAVE"

    @property
    def broker_id(self) -> int:
        """Its number in the name."""
        return number(self.settings, "brokerId", self.address)

    @property
    def broker_name(self) -> str:
        """The name that master and slaves share."""
        return self.settings.get("brokerName", "")


def number(values: Mapping[str, str], key: str, address: str) -> int:
    """A number among figures or settings. ProtocolError if it is not there."""
    text = values.get(key, "")
    if not text.removeprefix("-").isdigit():
        raise ProtocolError(f"{address} says {key} = {text[:40]!r}, which is no number")
    return int(text)
