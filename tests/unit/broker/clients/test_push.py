from __future__ import annotations

import logging

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.base.logs import RareWarnings
from rocketlake.broker.clients.push import Push
from rocketlake.net.client import InvokeTimeout
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


class Client:
    """The far end of a connection: it notes what it is told and answers what a test wants."""

    address = "10.0.0.1:5000"

    def __init__(self, answer: Command | LinkError | None = None) -> None:
        self.told: list[Command] = []
        self.asked: list[Command] = []
        self._answer = answer

    def send(self, command: Command) -> None:
        self.told.append(command)

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        self.asked.append(command)
        assert self._answer is not None
        if isinstance(self._answer, LinkError):
            raise self._answer
        return self._answer

    def close(self) -> None: ...


class Admin(Link):
    """An admin's connection that keeps the answers it would write."""

    def __init__(self) -> None:
        clock, dispatcher = ManualClock(), Dispatcher([])
        warnings = RareWarnings(logging.getLogger("test"), clock=clock)
        super().__init__(Endpoint(dispatcher, NetLimits(), clock, Codec.JSON, warnings, Turns(clock, 0.0005)))
        self.replies: list[Reply] = []

    def answer(self, request: Request, reply: Reply) -> None:
        self.replies.append(reply)


def make_push(*, notify_changes: bool = True) -> Push:
    clock = ManualClock()
    return Push(Turns(clock, 1.5), clock, notify_changes=notify_changes)


def test_every_member_is_told_its_group() -> None:
    first, second = Client(), Client()
    make_push().consumers_changed("g", [first, second])
    for client in (first, second):
        assert [(c.code, c.fields) for c in client.told] == [
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
        ]
    assert first.told[0] is not second.told[0]


def test_nobody_is_told_when_the_setting_says_no() -> None:
    client = Client()
    make_push(notify_changes=False).consumers_changed("g", [client])
    assert client.told == []


class Broken(Client):
    """Nothing can be sent to it."""

    def send(self, command: Command) -> None:
        raise OSError("the transport is broken")


@pytest.mark.parametrize("size", [10, 200])
async def test_a_member_that_cannot_be_told_keeps_nobody_else_from_being_told(size: int) -> None:
    push = make_push()
    first = [Client() for _ in range(size)]
    push.consumers_changed("g", [*first, Broken()])  # a large group is told from its end on
    push.consumers_changed("g", [Broken(), *first])
    await ManualClock().settle()
    later = [Client() for _ in range(size)]
    push.consumers_changed("h", later)
    await ManualClock().settle()
    assert all(client.told for client in first + later)


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (Command(0, body=b"info", remark="fine"), ResponseCode.SUCCESS, "fine"),
        (Command(1, remark="not mine"), ResponseCode.SYSTEM_ERROR, "not mine"),
        (InvokeTimeout("no answer in 10 s"), ResponseCode.CONSUME_MSG_TIMEOUT, "no answer in 10 s"),
        (LinkError("link closed"), ResponseCode.SYSTEM_ERROR, "link closed"),
    ],
)
async def test_what_a_client_answers_goes_to_the_admin(outcome: Command | LinkError, code: int, text: str) -> None:
    push, client, admin = make_push(), Client(outcome), Admin()
    await push.start()
    question = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert push.pass_on(Request(question, admin, 0.0), client, question) is HELD
    await ManualClock().settle()
    assert [(reply.code, reply.remark) for reply in admin.replies] == [(code, text)]
    assert client.asked == [question]
    await push.stop()
