"""Failures as clients of gRPC see them: a `Status` with RocketMQ's own code.

Owns        Refused, the one table from remoting codes to codes of v2, the status of any error.
Must not know   which request failed.

Apache's proxy names five remoting codes and makes INTERNAL_SERVER_ERROR of the others, which its clients try again. The
table names more, so that they do not repeat what fails each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketlake.base.errors import RemoteError, RocketLakeError, UsageError
from rocketlake.client.errors import NoRoute
from rocketlake.net.asked import InvokeTimeout
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code

__all__ = ["Refused", "common_status", "ok", "status", "status_of", "status_of_answer"]


class Refused(UsageError):
    """A request that this side does not take; `code` is that of v2."""

    def __init__(self, code: Code, what: str, *, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.code = code


_CODES = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.RPC_TIME_OUT: Code.PROXY_TIMEOUT,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.VERSION_NOT_SUPPORTED: Code.VERSION_UNSUPPORTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    ResponseCode.INVALID_PARAMETER: Code.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: Code.BAD_REQUEST,
    ResponseCode.PULL_NOT_FOUND: Code.MESSAGE_NOT_FOUND,
    ResponseCode.NO_MESSAGE: Code.MESSAGE_NOT_FOUND,
    ResponseCode.POLLING_TIMEOUT: Code.MESSAGE_NOT_FOUND,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.LMQ_QUOTA_EXCEEDED: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
}


def ok() -> Any:
    """The `v2.Status` of success."""
    return status(Code.OK)


def status(code: Code, text: str = "") -> Any:
    """A `v2.Status`; without a text the name of the code, as Apache's proxy says it."""
    return v2.Status(code=code, message=text or code.name)


def status_of_answer(code: int, remark: str | None) -> Any:
    """The `v2.Status` of a broker's answer."""
    known = _CODES.get(code, Code.INTERNAL_SERVER_ERROR)  # type: ignore[call-overload]  # an IntEnum is found by its number
    return status(known, remark or ("" if known is Code.OK else f"the broker answered with code {code}"))


def status_of(error: BaseException) -> Any:
    """The `v2.Status` of what a call raised. An error that is none of ours is not told to clients: log it."""
    if isinstance(error, Refused):
        return status(error.code, str(error))
    if isinstance(error, NoRoute):
        return status(Code.FORBIDDEN if error.is_read_only else Code.TOPIC_NOT_FOUND, str(error))
    if isinstance(error, RemoteError):
        return status_of_answer(error.code, error.remark or error.what)
    if isinstance(error, InvokeTimeout):
        return status(Code.PROXY_TIMEOUT, str(error))
    if isinstance(error, UsageError):
        return status(Code.BAD_REQUEST, str(error))
    if isinstance(error, RocketLakeError):
        return status(Code.INTERNAL_SERVER_ERROR, str(error))
    return status(Code.INTERNAL_SERVER_ERROR)


def common_status(statuses: Iterable[Any]) -> Any:
    """The status of an answer that holds many: their common code, or MULTIPLE_RESULTS."""
    codes = {each.code for each in statuses}
    if not codes:
        return status(Code.INTERNAL_SERVER_ERROR, "there is no result")
    return status(Code(codes.pop()) if len(codes) == 1 else Code.MULTIPLE_RESULTS)
