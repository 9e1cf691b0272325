"""One request, one answer: refusals become RemoteError.

Owns        `ask` (send a command, check the answer's code) and the hints for frequent refusals.
Must not know   single requests.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rocketlake.base.errors import RemoteError
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

DEFAULT_TIMEOUT_MS = 3000
HINTS = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded; send slower or try again",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the store takes no writes now; the broker's log says why (often: disk full)",
    ResponseCode.NO_PERMISSION: "look at the permission of topic and group",
    ResponseCode.TOPIC_NOT_EXIST: "`rocketlake topic create` makes it; or set autoCreateTopicEnable=true on the broker",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "set autoCreateSubscriptionGroup=true on the broker",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "the broker is too old or too new for this call",
}


async def ask(
    net: NetClient,
    address: str,
    command: Command,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    *,
    accept: Collection[int] = (ResponseCode.SUCCESS,),
) -> Command:
    """The answer if its code is one of `accept`. Raises RemoteError (the code, the remark, a hint) or LinkError."""
    answer = await net.invoke(address, command, timeout_ms)
    if answer.code not in accept:
        raise refusal(answer, command.code, address)
    return answer


def refusal(answer: Command, request_code: int, address: str) -> RemoteError:
    """The error for an answer with a code nobody expected."""
    try:
        code: Any = ResponseCode(answer.code)
        text = code.name
    except ValueError:
        code, text = answer.code, f"code {answer.code}"
    return RemoteError(
        f"{request_name(request_code)} was refused with {text}" + (f": {answer.remark}" if answer.remark else ""),
        code=answer.code,
        remark=answer.remark or "",
        address=address,
        hint=HINTS.get(code, ""),
    )
