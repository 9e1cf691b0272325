"""The ends of half messages: a list of them is committed or rolled back.

Owns        the request, when a message is looked up in its topic, the requests under way at once.
Must not know   what is decided.

An end that may have been sent before is not sent again blindly: Apache's broker would store the message a second time.
Its topic is asked first. RocketLake's broker refuses a second end, and after a start it does not say which was the
first one: the topic tells then, too.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.client.wire import TransactionEnd, query_messages, refusal
from rocketlake.model import sys_flag
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.transaction import EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.sink.exactly_once.calls import Calls, all_of
from rocketlake.spark.sink.exactly_once.records import Half, HalfList
from rocketlake.spark.sink.sending import WriteFailed

__all__ = ["Ends"]

_WINDOW = 512
_GIVEN_UP = (
    "bring back what `rocketlake transaction list --given-up` shows, by `rocketlake transaction check ID`; then start"
    " the query again: it goes on with this batch"
)


class Ends:
    """Ends half messages. They become visible one after the other, those of a queue in the order of their list."""

    def __init__(self, calls: Calls, *, immunity_ms: int) -> None:
        """`immunity_ms`: brokers do not ask about a half message before. Later they take an end as an answer only."""
        self._calls = calls
        self._immunity_ms = immunity_ms

    async def commit(self, half_list: HalfList, *, may_be_sent: bool) -> None:
        """Commit each of them. `may_be_sent`: another process may have done so. Raises WriteFailed."""
        halves = half_list.halves()
        while window := list(islice(halves, _WINDOW)):
            await all_of(self._commit(half_list, half, may_be_sent) for half in window)

    async def roll_back(self, half_list: HalfList) -> None:
        """Roll each of them back, as far as brokers are reached: they ask about the others."""
        halves = half_list.halves()
        while window := list(islice(halves, _WINDOW)):
            await all_of(self._roll_back(half_list, half) for half in window)

    async def _roll_back(self, half_list: HalfList, half: Half) -> None:
        with suppress(LinkError, RemoteError):
            await self._ask(half_list, half, TransactionEnd.ROLLBACK)

    async def _commit(self, half_list: HalfList, half: Half, may_be_sent: bool) -> None:
        patience = self._calls.patience(_queue(half), f"the end of a half message for {half.topic}")
        while True:
            try:
                if may_be_sent and await self._is_committed(half):
                    return
                may_be_sent = True
                answer = await self._ask(half_list, half, TransactionEnd.COMMIT)
                if answer.code == ResponseCode.SUCCESS:
                    return
                error: RocketLakeError = refusal(answer, int(RequestCode.END_TRANSACTION), half.broker_name)
                if "given up" in (answer.remark or ""):
                    error.hint = _GIVEN_UP
            except (LinkError, RemoteError, WriteFailed) as broken:
                error = broken
            await patience.after(error)

    async def _ask(self, half_list: HalfList, half: Half, end: TransactionEnd) -> Command:
        age_ms = self._calls.client.clock.now_ms() - half_list.born_ms
        header = EndTransactionHeader(
            topic=half.topic,
            producer_group=half_list.group,
            tran_state_table_offset=half.half_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=end.value,
            from_transaction_check=age_ms > self._immunity_ms // 2,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            target_broker=half.broker_name,
        )
        return await self._calls.invoke(_queue(half), Command.request(RequestCode.END_TRANSACTION, header))

    async def _is_committed(self, half: Half) -> bool:
        net = self._calls.client.net
        found = await self._calls.client.at_master(
            half.broker_name,
            half.topic,
            lambda address: query_messages(net, address, half.topic, half.unique_key, unique=True),
        )
        return any(
            message.unique_key == half.unique_key
            and sys_flag.transaction_type(message.sys_flag) == sys_flag.TRANSACTION_COMMIT
            for message in found
        )


def _queue(half: Half) -> MessageQueue:
    return MessageQueue(half.topic, half.broker_name, 0)
