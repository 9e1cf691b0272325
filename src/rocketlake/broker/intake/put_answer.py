"""The answer to the sender of a message, by the status of the put.

Owns        the response code of each status, the answer when nothing was stored.
Must not know   the message.
"""

from __future__ import annotations

from rocketlake.net.request import Reply
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["CODE_OF", "put_failure"]

CODE_OF = {
    PutStatus.OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_TOO_LONG: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.DISK_FULL: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.POOL_BUSY: ResponseCode.SYSTEM_BUSY,
}


def put_failure(status: PutStatus, result: PutResult) -> Reply:
    """The answer when a message was not stored."""
    remark = f"{status.name}: {result.reason}" if result.reason else status.name
    return Reply(CODE_OF.get(status, ResponseCode.SYSTEM_ERROR), remark=remark)
