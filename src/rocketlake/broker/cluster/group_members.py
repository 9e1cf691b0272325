"""The other brokers of this broker's name, as the name servers know them.

Owns        which name server is asked.
Must not know   what is asked of the members.
"""

from __future__ import annotations

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.broker.cluster.outbound import Outbound
from rocketlake.broker.config import LiveConfig

__all__ = ["GroupMembers"]

_log = get_logger(__name__)


class GroupMembers:
    """Asks name servers."""

    def __init__(self, config: LiveConfig, outbound: Outbound) -> None:
        self._config = config
        self._outbound = outbound

    async def others(self) -> list[str] | None:
        """The addresses of all members but this broker; None if no name server answers."""
        for namesrv in self._config.now.namesrv_addresses:
            try:
                return await self._outbound.other_members(namesrv)
            except RocketLakeError as error:
                _log.warning("name server %s does not tell the members of this group: %s", namesrv, error)
        return None
