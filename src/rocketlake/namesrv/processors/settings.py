"""Configuration requests of the name server.

Owns        which keys a request may change, and how a refusal reads.
Must not know   what a setting does.

Why a list of allowed keys and not of forbidden ones: docs/decisions/0005-admin-requests-from-this-machine.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from rocketlake.base.config_file import java_name, parse_properties, to_properties
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.namesrv.config import UPDATABLE, LiveConfig, NameServerConfig
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Settings"]

_log = get_logger("namesrv.settings")
_ALLOWED = sorted(java_name(field) for field in fields(NameServerConfig) if field.name in UPDATABLE)


class Settings:
    """UPDATE_NAMESRV_CONFIG and GET_NAMESRV_CONFIG."""

    def __init__(self, config: LiveConfig, changed: Callable[[NameServerConfig], None]) -> None:
        """`changed` is called with the new settings."""
        self._config = config
        self._changed = changed

    def update(self, request: Request) -> Reply:
        """Change live settings, all or none."""
        values = parse_properties(request.body.decode("utf-8", "replace"))
        refused = sorted(values.keys() - set(_ALLOWED))
        if refused:
            raise RemoteError(
                f"Can not update config in black list: {', '.join(refused)[:200]}",
                code=ResponseCode.NO_PERMISSION,
                hint=f"these can change while it runs: {', '.join(_ALLOWED)}; for others edit the file and restart",
            )
        self._config.update(values)
        self._changed(self._config.now)
        _log.info("settings changed by %s: %s", request.address, values)
        return Reply()

    def get(self, _request: Request) -> Reply:
        """All settings as a Java properties file."""
        return Reply(body=to_properties(self._config.to_values()).encode())
