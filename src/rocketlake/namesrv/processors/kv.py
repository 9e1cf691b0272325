"""KV requests of the name server.

Owns        the answer for a missing namespace or key.
Must not know   the file of the values, routes.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.namesrv.kv_config import KVConfig
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.headers.namesrv import DeleteKvHeader, GetKvHeader, GetKvReplyHeader, KvListHeader, PutKvHeader
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["KV"]


class KV:
    """PUT, GET and DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE."""

    def __init__(self, kv_config: KVConfig) -> None:
        self._kv_config = kv_config

    def put(self, request: Request) -> Reply:
        """Set a value."""
        header = request.header(PutKvHeader)
        self._kv_config.put(header.kv_namespace, header.key, header.value)
        return Reply()

    def get(self, request: Request) -> Reply:
        """One value, QUERY_NOT_FOUND if there is none."""
        header = request.header(GetKvHeader)
        value = self._kv_config.get(header.kv_namespace, header.key)
        if value is None:
            raise RemoteError(
                f"no KV setting {header.key!r} in namespace {header.kv_namespace!r}", code=ResponseCode.QUERY_NOT_FOUND
            )
        return Reply(header=GetKvReplyHeader(value=value))

    def delete(self, request: Request) -> Reply:
        """Remove a value; removing nothing is success."""
        header = request.header(DeleteKvHeader)
        self._kv_config.delete(header.kv_namespace, header.key)
        return Reply()

    def list(self, request: Request) -> Reply:
        """All values of a namespace, QUERY_NOT_FOUND if there is none."""
        header = request.header(KvListHeader)
        values = self._kv_config.namespace(header.kv_namespace)
        if values is None:
            raise RemoteError(f"no KV namespace {header.kv_namespace!r}", code=ResponseCode.QUERY_NOT_FOUND)
        return Reply(body=KVTable(table=values).encode())
