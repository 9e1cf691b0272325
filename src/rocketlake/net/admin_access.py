"""Who may send requests that change or destroy what others rely on.

Owns        the rule "from this machine only, unless a setting says otherwise".
Must not know   which requests those are, users and passwords (that is `auth`, later).

Why: docs/decisions/0004-admin-requests-from-this-machine.md.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address

from rocketlake.base.errors import RemoteError
from rocketlake.net.request import Handler, Held, Reply, Request
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["AdminAccess", "check_admin_access", "guard"]


class AdminAccess(Enum):
    """Values of the setting `adminAccess`."""

    LOOPBACK = "LOOPBACK"
    ANY = "ANY"
    NONE = "NONE"


def check_admin_access(access: AdminAccess, remote_host: str, what: str) -> None:
    """Pass, or raise RemoteError NO_PERMISSION naming the setting. `what` is the request, for the text."""
    if access is AdminAccess.ANY or (access is AdminAccess.LOOPBACK and _is_loopback(remote_host)):
        return
    raise RemoteError(
        f"{what} is refused from {remote_host}: adminAccess={access.value}",
        code=ResponseCode.NO_PERMISSION,
        hint="send it from the server's own machine, or set adminAccess=ANY in its configuration file",
    )


def guard(access: AdminAccess, handler: Handler) -> Handler:
    """The handler behind the rule, for a row of a dispatch table."""

    def guarded(request: Request) -> Reply | Held:
        check_admin_access(access, request.asker.remote[0], request_name(request.code))
        return handler(request)

    return guarded


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
