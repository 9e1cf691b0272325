"""Every way a request can go wrong has an answer."""

from __future__ import annotations

import logging

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.logs import RareWarnings
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.needs import ANY_USER, ANYBODY, taking
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.headers.client import GroupMembersHeader
from rocketlake.protocol.response_code import ResponseCode


def request(dispatcher: Dispatcher, code: int = 34) -> Request:
    clock = ManualClock()
    warnings = RareWarnings(logging.getLogger("test"), clock=clock)
    link = Link(Endpoint(dispatcher, NetLimits(), clock, Codec.JSON, warnings, Turns(clock, 0.0005)))
    return Request(Command(code), link, 0.0)


def served(handler: object, code: int = 34) -> Reply | Held:
    dispatcher = Dispatcher([Row(34, handler, ANYBODY)])  # type: ignore[arg-type]
    return dispatcher.dispatch(request(dispatcher, code))


def test_an_unknown_code_is_answered_not_supported() -> None:
    reply = served(lambda _: Reply(), 4711)
    assert reply == Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 4711 not supported")


def test_a_remote_error_gives_its_code_and_text() -> None:
    def refuse(_: Request) -> Reply:
        raise RemoteError("group g may not read", code=ResponseCode.NO_PERMISSION)

    assert served(refuse) == Reply(ResponseCode.NO_PERMISSION, remark="group g may not read")


def test_an_access_that_a_rule_refuses_gives_no_permission_and_the_cure() -> None:
    gate = AccessGate(lambda: AdminAccess.NONE)
    dispatcher = Dispatcher([Row(34, lambda _: Reply(), taking(ANY_USER))], gate)
    reply = dispatcher.dispatch(request(dispatcher))
    assert isinstance(reply, Reply)
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "adminAccess=NONE. Cure:" in str(reply.remark)


def test_our_own_errors_give_system_error_with_the_cure() -> None:
    def refuse(_: Request) -> Reply:
        raise UsageError("queue 9 does not exist", hint="ask for 0 to 3")

    reply = served(refuse)
    assert isinstance(reply, Reply)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "queue 9 does not exist" in str(reply.remark)
    assert "ask for 0 to 3" in str(reply.remark)


def test_a_bad_header_is_answered_with_the_name_of_the_field() -> None:
    reply = served(lambda asked: Reply(remark=asked.header(GroupMembersHeader).consumer_group))
    assert isinstance(reply, Reply)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "consumerGroup is missing" in str(reply.remark)


def test_any_exception_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    reply = served(lambda _: Reply(1 // 0))
    assert isinstance(reply, Reply)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "ZeroDivisionError" in str(reply.remark)
    assert "HEART_BEAT" in caplog.text


def test_a_before_hook_may_answer_in_place_of_the_handler() -> None:
    dispatcher = Dispatcher([Row(34, lambda _: Reply(0, remark="handler"), ANYBODY)])
    dispatcher.before.append(lambda asked: Reply(ResponseCode.NO_PERMISSION) if asked.code == 34 else None)
    assert dispatcher.dispatch(request(dispatcher)) == Reply(ResponseCode.NO_PERMISSION)


def test_a_before_hook_may_raise() -> None:
    def gate(_: Request) -> None:
        raise RemoteError("no", code=ResponseCode.NO_PERMISSION)

    dispatcher = Dispatcher([Row(34, lambda _: Reply(), ANYBODY)])
    dispatcher.before.append(gate)
    assert dispatcher.dispatch(request(dispatcher)) == Reply(ResponseCode.NO_PERMISSION, remark="no")


def test_after_hooks_see_the_reply_but_not_a_held_request() -> None:
    seen: list[int] = []
    dispatcher = Dispatcher([Row(1, lambda _: Reply(7), ANYBODY), Row(2, lambda _: HELD, ANYBODY)])
    dispatcher.after.append(lambda _, reply: seen.append(reply.code))
    dispatcher.dispatch(request(dispatcher, 1))
    dispatcher.dispatch(request(dispatcher, 2))
    assert seen == [7]


def test_a_failing_after_hook_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher([Row(1, lambda _: Reply(7), ANYBODY)])
    dispatcher.after.append(lambda _, reply: print(1 // 0))
    assert dispatcher.dispatch(request(dispatcher, 1)) == Reply(7)
    assert "after-hook" in caplog.text


def test_two_rows_for_one_code_are_refused() -> None:
    with pytest.raises(ValueError, match="HEART_BEAT"):
        Dispatcher([Row(34, lambda _: Reply(), ANYBODY), Row(34, lambda _: Reply(), ANYBODY)])


def test_a_request_that_a_hook_held_passes_the_hooks_behind_it() -> None:
    dispatcher = Dispatcher([Row(34, lambda _: Reply(), ANYBODY)])
    seen: list[str] = []

    def before(_: Request) -> None:
        seen.append("before")

    def holds(_: Request) -> Held:
        return HELD

    def gate(_: Request) -> Reply:
        return Reply(ResponseCode.NO_PERMISSION)

    dispatcher.before += [before, holds, gate]
    held = request(dispatcher)
    assert dispatcher.dispatch(held) is HELD
    assert dispatcher.serve_behind(holds, held) == Reply(ResponseCode.NO_PERMISSION)
    assert seen == ["before"]


@pytest.mark.parametrize(
    ("code", "remark", "counted"),
    [
        (ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control", {("send", "OVERLOAD"): 2}),
        (ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy", {("send", "TIMEOUT_CLEAN_QUEUE"): 2}),
        (ResponseCode.SYSTEM_BUSY, "POOL_BUSY: no buffer is free", {("send", "POOL_BUSY"): 2}),
        (ResponseCode.SYSTEM_BUSY, "POOL_BUSY", {("send", "POOL_BUSY"): 2}),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "DISK_FULL: 95 %", {("send", "DISK_FULL"): 2}),
        (ResponseCode.SYSTEM_BUSY, "Topics of a user: a word", {("send", "SYSTEM_BUSY"): 2}),
        (ResponseCode.SYSTEM_BUSY, None, {("send", "SYSTEM_BUSY"): 2}),
        (ResponseCode.SYSTEM_ERROR, "[OVERLOAD] of another kind", {}),
        (ResponseCode.SUCCESS, None, {}),
    ],
)
def test_refusals_are_counted_by_lane_and_reason(
    code: int, remark: str | None, counted: dict[tuple[str, str], int]
) -> None:
    dispatcher = Dispatcher([Row(34, lambda _: Reply(code, remark=remark), ANYBODY, "send")])
    for _ in range(2):
        dispatcher.dispatch(request(dispatcher))
    assert dispatcher.refusals == counted
