"""The handler of each request code that a controller serves.

Owns        one row per request code, the largest body.
Must not know   the work of a handler. Heartbeats and settings are served by the name server around it.
"""

from __future__ import annotations

from typing import Final

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.controller.serving.requests import Requests
from rocketlake.controller.serving.views import Views
from rocketlake.net.admin_gate import guard
from rocketlake.net.dispatcher import Row
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["rows"]

_BODY: Final = 64 * 1024


def rows(asked: Requests, views: Views, access: AdminAccess) -> list[Row]:
    """The table. Guarded rows: docs/decisions/0004-admin-requests-from-this-machine.md; other hosts: askers.py."""
    held = asked.handler
    return [
        Row(Code.CONTROLLER_ALTER_SYNC_STATE_SET, held(asked.alter_set), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_ELECT_MASTER, held(asked.elect), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_REGISTER_BROKER, held(asked.register), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_REPLICA_INFO, views.replica_info, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_METADATA_INFO, views.metadata, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_SYNC_STATE_DATA, views.sync_state_data, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_NEXT_BROKER_ID, held(asked.next_id), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_APPLY_BROKER_ID, held(asked.apply_id), body_bytes_max=_BODY),
        Row(Code.CLEAN_BROKER_DATA, guard(access, held(asked.clean)), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_GROUPS, views.groups, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_SWITCHES, held(views.switches), body_bytes_max=_BODY),
    ]
