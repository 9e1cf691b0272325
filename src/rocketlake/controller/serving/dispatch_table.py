"""The handler of each request code that a controller serves.

Owns        one row per request code, the largest body.
Must not know   the work of a handler. Heartbeats and settings are served by the name server around it.
"""

from __future__ import annotations

from typing import Final

from rocketlake.auth.action import Action
from rocketlake.controller.serving.requests import Requests
from rocketlake.controller.serving.views import Views
from rocketlake.net.dispatcher import Row
from rocketlake.net.gate.needs import cluster, members, taking
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["rows"]

_BODY: Final = 64 * 1024


def rows(asked: Requests, views: Views) -> list[Row]:
    """The table. Which requests must come from the member itself: askers.py."""
    held, change, read, talk = asked.handler, cluster(Action.UPDATE), cluster(Action.GET), members()
    return [
        Row(Code.CONTROLLER_ALTER_SYNC_STATE_SET, held(asked.alter_set), talk, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_ELECT_MASTER, held(asked.elect), change, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_REGISTER_BROKER, held(asked.register), talk, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_REPLICA_INFO, views.replica_info, read, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_METADATA_INFO, views.metadata, read, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_SYNC_STATE_DATA, views.sync_state_data, read, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_NEXT_BROKER_ID, held(asked.next_id), talk, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_APPLY_BROKER_ID, held(asked.apply_id), talk, body_bytes_max=_BODY),
        Row(Code.CLEAN_BROKER_DATA, held(asked.clean), taking(change), body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_GROUPS, views.groups, read, body_bytes_max=_BODY),
        Row(Code.CONTROLLER_GET_SWITCHES, held(views.switches), read, body_bytes_max=_BODY),
    ]
