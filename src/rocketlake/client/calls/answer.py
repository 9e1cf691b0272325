"""One request, one answer: refusals become RemoteError.

Owns        `ask` (send a command, check the answer's code), the table of what a code means for the next try, the hints
            for frequent refusals.
Must not know   the requests themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
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
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "`rocketlake group create` makes it, or a consumer that joins, unless"
    " autoCreateSubscriptionGroup=false on the broker",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "the broker is too old or too new for this call",
    ResponseCode.MESSAGE_ILLEGAL: "send a message within the limit that the text names: shorter body, fewer properties",
    ResponseCode.INVALID_PARAMETER: "correct what the text names; `rocketlake topic show` lists the queues of a topic",
}
_HINT_ELSE = "look at what the text names; the log of that server may say more"
_CURE = ". Cure: "
"""Begins the cure at the end of an error's text (base/errors.py)."""


class Meaning(Enum):
    """The meaning of an answer other than SUCCESS for the next try."""

    BUSY = auto()
    """The broker takes the same request a moment later."""
    UNCLEAR = auto()
    """The broker may take the request later, or never: an unnamed fault, or a topic that is just being made."""
    ELSEWHERE = auto()
    """This broker will not take the request; another one may."""
    SLOW_DOWN = auto()
    """The broker asks a reader to pause. Brokers do not answer sends with it."""
    UNSURE = auto()
    """The messages are stored, but not yet flushed or copied as the broker's settings ask."""
    NO_SUBSCRIPTION = auto()
    """The broker has another subscription for the group, or none: it waits for a heartbeat, or members disagree."""
    NO_GROUP = auto()
    """The broker does not know the group before the next heartbeat."""


MEANINGS: dict[int, Meaning] = {
    ResponseCode.SYSTEM_BUSY: Meaning.BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE: Meaning.BUSY,
    ResponseCode.GO_AWAY: Meaning.BUSY,
    ResponseCode.SYSTEM_ERROR: Meaning.UNCLEAR,
    ResponseCode.TOPIC_NOT_EXIST: Meaning.UNCLEAR,
    ResponseCode.NO_PERMISSION: Meaning.ELSEWHERE,
    ResponseCode.NO_BUYER_ID: Meaning.ELSEWHERE,
    ResponseCode.NOT_IN_CURRENT_UNIT: Meaning.ELSEWHERE,
    ResponseCode.FLOW_CONTROL: Meaning.SLOW_DOWN,
    ResponseCode.FLUSH_DISK_TIMEOUT: Meaning.UNSURE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Meaning.UNSURE,
    ResponseCode.SLAVE_NOT_AVAILABLE: Meaning.UNSURE,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: Meaning.NO_SUBSCRIPTION,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: Meaning.NO_SUBSCRIPTION,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Meaning.NO_GROUP,
}
"""A code that is not here ends the work: repeating the request would bring the same answer."""


def _codes(*meanings: Meaning) -> frozenset[int]:
    return frozenset(int(code) for code, meaning in MEANINGS.items() if meaning in meanings)


# Callers differ on purpose in what they repeat; each difference has its name here.
SENT_TO_ANOTHER_BROKER = _codes(Meaning.BUSY, Meaning.UNCLEAR, Meaning.ELSEWHERE)
"""A producer tries another broker (RocketMQ's retryResponseCodes). UNSURE is a result, not a refusal."""
SENT_TO_THE_SAME_QUEUE = _codes(Meaning.BUSY, Meaning.UNCLEAR)
"""A sender whose queue is fixed tries that queue again. ELSEWHERE is final: there is no other broker."""
STORED_UNSURELY = _codes(Meaning.UNSURE)
"""A second try stores the messages twice, unless the broker knows replays."""
DEAD_LETTER_WAITS = _codes(Meaning.BUSY, Meaning.SLOW_DOWN)
"""The queue waits behind a damaged record. UNCLEAR is final: a lasting fault would stop the queue for good."""
PULLED_SLOWER = _codes(Meaning.SLOW_DOWN)
"""A consumer pauses for a moment without a word. After every other refusal it warns and pauses longer."""
PULLED_AFTER_HEARTBEAT = _codes(Meaning.NO_SUBSCRIPTION, Meaning.NO_GROUP)
"""A consumer sends its heartbeat now, then pulls again."""
POPPED_AGAIN = _codes(Meaning.BUSY, Meaning.UNCLEAR, Meaning.SLOW_DOWN, Meaning.NO_SUBSCRIPTION, Meaning.NO_GROUP)
"""A receive tries the same broker again while its time lasts. Every other refusal is final."""
OTHERWISE_SUBSCRIBED = _codes(Meaning.NO_SUBSCRIPTION)
"""If heartbeats do not help, the members of the group subscribe differently."""


_REFUSED_AS_SLAVE = ("slave", "[REJECTREQUEST]")
"""Apache's slaves refuse a send with SYSTEM_BUSY or SERVICE_NOT_AVAILABLE and such a remark."""


def is_of_slave(answer: Command | RemoteError) -> bool:
    """True when the broker refused because it is a slave, or may have: another one may be the master.

    SLAVE_NOT_AVAILABLE has two meanings: a slave refuses, or a master has stored the message and lacks a slave.
    """
    if answer.code == ResponseCode.SLAVE_NOT_AVAILABLE:
        return isinstance(answer, RemoteError) or "msgId" not in (answer.fields or ())
    busy = answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
    return busy and any(word in (answer.remark or "") for word in _REFUSED_AS_SLAVE)


def is_of_another_master(error: RocketLakeError) -> bool:
    """True if the broker may have another master by now: no answer came, or that of a slave."""
    return isinstance(error, LinkError) or (isinstance(error, RemoteError) and is_of_slave(error))


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


def refusal(
    answer: Command, request_code: int, address: str, hints: Mapping[int, str] = MappingProxyType({})
) -> RemoteError:
    """The error for an answer whose code the caller does not accept.

    A cure in its remark is the server's own. Where there is none, those of the caller (`hints`, by code) come first.
    """
    try:
        code: Any = ResponseCode(answer.code)
        text = code.name
    except ValueError:
        code, text = answer.code, f"code {answer.code}"
    remark, _, cure = (answer.remark or "").partition(_CURE)
    return RemoteError(
        f"{request_name(request_code)} was refused with {text}" + (f": {remark}" if remark else ""),
        code=answer.code,
        remark=answer.remark or "",
        address=address,
        hint=cure or hints.get(answer.code) or HINTS.get(code, _HINT_ELSE),
    )
