"""Headers of the request by which a slave of ours waits for its master's tables to change.

Owns        field names.
Must not know   the tables.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int64, RequestHeader


class NewerTablesHeader(RequestHeader, kw_only=True):
    """GET_NEWER_TABLES, slave to master: answered when a table is newer than `known`, or after `hold_millis`.

    `known`: the text of the last answer whose tables the slave has saved; "" at first. `mark`: of the life of its
    process; "" without a controller.
    """

    broker_id: Int64
    mark: str = ""
    known: str = ""
    hold_millis: Int64 = 0


class NewerTablesReplyHeader(Header, kw_only=True):
    """Answer of GET_NEWER_TABLES. `known`: the editions of all tables, for the next request.

    `changed`: the names of the tables that are newer, with commas between them; "" if none is.
    """

    known: str
    changed: str = ""
