"""The gate in front of handlers that only some hosts may use.

Owns        asking the rule (auth/admin_access.py) before such a handler runs.
Must not know   the rule, the handlers.
"""

from __future__ import annotations

from rocketlake.auth.admin_access import AdminAccess, check_admin_access
from rocketlake.net.request import Handler, Held, Reply, Request
from rocketlake.protocol.request_code import request_name

__all__ = ["guard"]


def guard(access: AdminAccess, handler: Handler) -> Handler:
    """The handler behind the rule, for a row of a dispatch table."""

    def guarded(request: Request) -> Reply | Held:
        check_admin_access(access, request.asker.remote[0], request_name(request.code))
        return handler(request)

    return guarded
