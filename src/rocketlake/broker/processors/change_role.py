"""The request by which an administrator has this broker take over from another one, or hand over.

Owns        the checks of the request, its answer when the change is over.
Must not know   the steps of the change (replicas/takeover.py).
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.broker.cluster.role import MASTER_ID, Role
from rocketlake.broker.replicas.takeover import Takeover
from rocketlake.net.link_pool import split_address
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.role import ChangeRoleHeader
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ChangeRole"]

_log = get_logger(__name__)
_ID_MAX = 2**31 - 1


class ChangeRole(Service):
    """Serves CHANGE_ROLE, one after the other."""

    def __init__(self, takeover: Takeover, role: Role, clock: Clock) -> None:
        super().__init__("change-role", clock)
        self._takeover = takeover
        self._role = role

    def change(self, request: Request) -> Held:
        """CHANGE_ROLE. Answered when the role has changed, or with the reason why it has not."""
        header = request.header(ChangeRoleHeader)
        if not 0 <= header.broker_id <= _ID_MAX:
            raise _refusal(f"brokerId {header.broker_id} is no id of a broker", "give 0, or a number above it")
        if header.broker_id == MASTER_ID:
            for address in (header.other, *_listed(header.members)):
                split_address(address)  # raises for what is no address
        if self._role.is_changing:
            raise _refusal(
                "the role is being changed already", "repeat the request when that has ended", ResponseCode.SYSTEM_BUSY
            )
        self._role.is_changing = True  # before any other broker is asked: see Takeover
        self.spawn("change", self._change(request, header))
        return HELD

    async def _change(self, request: Request, header: ChangeRoleHeader) -> None:
        try:
            if header.broker_id == MASTER_ID:
                members = _listed(header.members)
                await self._takeover.lead(header.other, members, copies=not header.keeps_tables)
            else:
                await self._takeover.follow(header.broker_id)
            request.answer(Reply())
        except RocketLakeError as error:
            _log.warning("the role stays as it is: %s", error)
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=str(error)))
        except Exception as error:
            _log.exception("the role stays as it is")
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=repr(error)))
        finally:
            self._role.is_changing = False


def _listed(members: str) -> list[str]:
    return [address for address in members.split(",") if address]


def _refusal(what: str, hint: str, code: int = ResponseCode.INVALID_PARAMETER) -> RemoteError:
    return RemoteError(what, code=code, hint=hint)
