"""Requests from the broker to its clients.

Owns        the commands sent to clients, the questions of administrators that are passed on to a client.
Must not know   the members of groups, what a client does with a command.

Source: docs/internals/clients.md.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.base.service import Service
from rocketlake.net.client import InvokeTimeout
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.client import NotifyConsumersChangedHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ASK_MS_MAX", "Push"]

ASK_MS_MAX = 10_000
"""How long a client may take to answer an administrator's question, or to take an answer to its message."""
_TOLD_AT_ONCE = 64
_ASK_EACH_MS_MAX = 5_000
"""The same when several clients are asked (RocketMQ's limit, too)."""


class Push(Service):
    """Sends notices and questions to clients. Questions under way end with the service."""

    def __init__(self, turns: Turns, clock: Clock, *, notify_changes: bool = True) -> None:
        """`notify_changes`: the broker's notifyConsumerIdsChangedEnable."""
        super().__init__("push", clock)
        self._turns = turns
        self._notify_changes = notify_changes
        self._to_tell: OrderedDict[str, dict[Asker, None]] = OrderedDict()
        """By group, oldest first: members of large groups that have not been told yet."""

    def consumers_changed(self, group: str, askers: Sequence[Asker]) -> None:
        """Tell the members of a group to share the queues anew; the members of a large group are told in turns."""
        if not self._notify_changes:
            return
        if len(askers) <= _TOLD_AT_ONCE and group not in self._to_tell:
            for asker in askers:
                call(_tell, asker, group)
            return
        if not self._to_tell:
            self._turns.wait(self._tell_on)
        self._to_tell.setdefault(group, {}).update(dict.fromkeys(askers))

    def _tell_on(self, turn_end: float) -> None:
        while self._to_tell:
            group, askers = next(iter(self._to_tell.items()))
            while askers:
                call(_tell, askers.popitem()[0], group)
                if self._clock.monotonic() > turn_end:
                    self._turns.wait(self._tell_on)
                    return
            del self._to_tell[group]

    def check_transaction(self, asker: Asker, header: CheckTransactionHeader, record: bytearray) -> None:
        """Ask a producer what became of the transaction of a half message."""
        asker.send(Command.request(RequestCode.CHECK_TRANSACTION_STATE, header, record))

    def pass_on(self, request: Request, asker: Asker, command: Command) -> Held:
        """Ask a client on behalf of an administrator; its answer becomes the answer to `request`."""
        self.spawn("pass-on", self._pass_on(request, asker, command))
        return HELD

    def hand_on(self, asker: Asker, command: Command, done: Callable[[str], None]) -> None:
        """Give a client a command and wait for its word; `done` is called once, with "" or with why it has it not."""
        self.spawn("hand-on", self._hand_on(asker, command, done))

    async def _hand_on(self, asker: Asker, command: Command, done: Callable[[str], None]) -> None:
        failure = "the broker stops"
        try:
            answer = await asker.invoke(command, ASK_MS_MAX)
            failure = "" if answer.code == ResponseCode.SUCCESS else answer.remark or f"code {answer.code}"
        except LinkError as error:
            failure = str(error)
        finally:
            done(failure)

    def ask_each(
        self,
        request: Request,
        askers: Sequence[Asker],
        question: Callable[[], Command],
        reply: Callable[[list[Command | LinkError]], Reply],
    ) -> Held:
        """Ask several clients at once; `reply` makes one answer of theirs, which come in the order of the askers."""
        self.spawn("ask-each", self._ask_each(request, askers, question, reply))
        return HELD

    async def _ask_each(
        self,
        request: Request,
        askers: Sequence[Asker],
        question: Callable[[], Command],
        reply: Callable[[list[Command | LinkError]], Reply],
    ) -> None:
        answers = await asyncio.gather(*[_answer_of(asker, question()) for asker in askers])
        request.answer(reply(answers))

    async def _pass_on(self, request: Request, asker: Asker, command: Command) -> None:
        try:
            answer = await asker.invoke(command, ASK_MS_MAX)
        except InvokeTimeout as error:
            request.answer(Reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(error)))
        except LinkError as error:
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=str(error)))
        else:
            request.answer(Reply(answer.code, body=answer.body_bytes, remark=answer.remark, fields=answer.fields))


def _tell(asker: Asker, group: str) -> None:
    header = NotifyConsumersChangedHeader(consumer_group=group)
    asker.send(Command.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header))


async def _answer_of(asker: Asker, question: Command) -> Command | LinkError:
    try:
        return await asker.invoke(question, _ASK_EACH_MS_MAX)
    except LinkError as error:
        return error
