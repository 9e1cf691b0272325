"""The rule for requests that change or destroy what others rely on.

Owns        the rule "from this machine only, unless the setting `adminAccess` says otherwise".
Must not know   which requests the rule holds for (the dispatch tables mark them), users and passwords.

Why: docs/decisions/0004-admin-requests-from-this-machine.md.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address

from rocketlake.auth.action import AccessRefused

__all__ = ["AdminAccess", "check_admin_access", "is_loopback"]


class AdminAccess(Enum):
    """Values of the setting `adminAccess`: the hosts that may send these requests."""

    LOOPBACK = "LOOPBACK"
    ANY = "ANY"
    NONE = "NONE"


def check_admin_access(access: AdminAccess, remote_host: str, action: str) -> None:
    """Return if this host may do it, else raise AccessRefused. `action` names the request in the text of the error."""
    if access is AdminAccess.ANY or (access is AdminAccess.LOOPBACK and is_loopback(remote_host)):
        return
    raise AccessRefused(
        f"{action} is refused from {remote_host}: adminAccess={access.value}",
        hint="send it from the server's own machine, or set adminAccess=ANY in its configuration file",
    )


def is_loopback(host: str) -> bool:
    """True for an address of this machine that no other one reaches."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
