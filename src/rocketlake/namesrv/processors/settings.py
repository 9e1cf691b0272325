"""Configuration requests of the name server.

Owns        the code of a refused change.
Must not know   the effect of a setting, and which settings may change (config.py).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.base.settings.config_file import parse_properties, to_properties
from rocketlake.base.settings.live_settings import NotLive
from rocketlake.namesrv.config import LiveConfig, NameServerConfig
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Settings"]

_log = get_logger("namesrv.settings")


class Settings:
    """UPDATE_NAMESRV_CONFIG and GET_NAMESRV_CONFIG."""

    def __init__(self, config: LiveConfig, changed: Callable[[NameServerConfig], None]) -> None:
        """`changed` is called with the new settings."""
        self._config = config
        self._changed = changed

    def update(self, request: Request) -> Reply:
        """Change live settings, all or none."""
        values = parse_properties(request.body.decode("utf-8", "replace"))
        try:
            self._config.update(values)
        except NotLive as error:
            raise RemoteError(error.what, code=ResponseCode.NO_PERMISSION, hint=error.hint) from error
        self._changed(self._config.now)
        _log.info("settings changed by %s: %s", request.address, values)
        return Reply()

    def get(self, _request: Request) -> Reply:
        """All settings as a Java properties file."""
        return Reply(body=to_properties(self._config.to_values()).encode())
