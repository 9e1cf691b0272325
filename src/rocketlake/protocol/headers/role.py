"""The header of the request that changes the role of a broker without a controller.

Owns        field names.
Must not know   what must be so before a role changes.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Int64, RequestHeader


class ChangeRoleHeader(RequestHeader, kw_only=True):
    """CHANGE_ROLE: be the master (`broker_id` 0) or a slave with this id from now on.

    `other`: who becomes the master: the address of the broker that was it, which is a slave already.
    `members`: who becomes the master: the other brokers of the name, `host:port`, with commas between.
    `keeps_tables`: who becomes the master: the own tables are the newer ones, as of a broker that was it a moment ago.
    """

    broker_id: Int64
    other: str = ""
    members: str = ""
    keeps_tables: bool = False
