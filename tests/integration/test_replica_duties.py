"""What a group of brokers does for its clients beside sends: handed back messages, transactions, delayed messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.model.topic import DELAY_TOPIC
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.send import RecallHeader, SendBackHeader
from rocketlake.protocol.headers.transaction import EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import ReplicaGroup
from tests.requests import send_header

OK = ResponseCode.SUCCESS
HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01K1\x02"


@pytest.fixture
async def group() -> AsyncIterator[ReplicaGroup]:
    group = ReplicaGroup()
    await group.start()
    yield group
    await group.stop()


async def ask(group: ReplicaGroup, host: str, code: RequestCode, header: Header, body: bytes = b"") -> Command | None:
    """The answer; None without one."""
    asked = asyncio.ensure_future(group.client.invoke(f"{host}:10911", Command.request(code, header, body), 3000))
    while not asked.done():
        await group.clock.run_for(5)
    try:
        return asked.result()
    except LinkError:
        return None


def cut_off(group: ReplicaGroup, host: str) -> None:
    """Nobody of the group and no name server hears it; clients do."""
    for other in [*group.hosts, "10.0.0.1"]:
        if other != host:
            group.net.partition(host, other)


def parked(group: ReplicaGroup, host: str, level: int) -> int:
    return group.brokers[host].store.max_offset(DELAY_TOPIC, level - 1)


async def hand_back(group: ReplicaGroup, host: str) -> int:
    """Hand the first message of the log back; the code of the answer, -1 without one."""
    header = SendBackHeader(offset=0, group="g", delay_level=0, max_reconsume_times=16)
    answer = await ask(group, host, RequestCode.CONSUMER_SEND_MSG_BACK, header)
    return -1 if answer is None else answer.code


async def test_a_message_is_taken_back_when_the_replicas_have_its_copy(group: ReplicaGroup) -> None:
    """The consumer is done with it after the answer: nobody else would ask for it again."""
    old = group.master
    assert await group.send(b"first") == OK
    assert await hand_back(group, old) == OK
    await group.clock.run_for(1000)
    assert [parked(group, host, 3) for host in group.hosts] == [1, 1, 1]
    cut_off(group, old)
    assert await hand_back(group, old) != OK


async def test_a_copy_that_a_consumer_sends_is_taken_when_the_replicas_have_it(group: ReplicaGroup) -> None:
    """Consumers send one where a message cannot be handed back; retried before, it has Apache's WAIT=false."""
    old = group.master
    assert await group.send(b"first") == OK
    assert await hand_back(group, old) == OK  # makes the retry topic
    await group.clock.run_for(1000)
    retry = send_header("%RETRY%g", properties="WAIT\x01false\x02DELAY\x014\x02")
    answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, retry, b"again")
    assert answer is not None and answer.code == OK
    await group.clock.run_for(1000)
    cut_off(group, old)
    answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, retry, b"again")
    assert answer is None or answer.code != OK


@pytest.mark.parametrize(
    "asked", [("DELAY\x011\x02", "DELAY\x012\x02"), ("TIMER_DELAY_MS\x01900\x02", "TIMER_DELAY_MS\x015000\x02")]
)
async def test_a_delayed_message_is_delivered_once_though_its_master_is_lost_at_once(
    group: ReplicaGroup, asked: tuple[str, str]
) -> None:
    """The slaves copy the progress of deliveries twice a second, and the log at once."""
    old = group.master
    assert await group.send(b"first") == OK
    await group.clock.run_for(1000)
    for number, properties in enumerate(asked):
        answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, send_header(properties=properties), b"%d" % number)
        assert answer is not None and answer.code == OK
    await group.until(lambda: b"0" in group.bodies(old))
    group.crash(old)
    await group.until(lambda: group.masters and old not in group.masters)
    await group.clock.run_for(8000)
    assert group.bodies(group.master) == [b"first", b"0", b"1"]


async def test_a_new_master_goes_on_where_the_timer_of_the_old_one_was(group: ReplicaGroup) -> None:
    """What was delivered long ago is not looked for in the log: slaves hear how far their master is."""
    old = group.master
    for number in range(20):
        properties = f"TIMER_DELAY_MS\x01{300 + 100 * number}\x02"
        answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, send_header(properties=properties), b"%d" % number)
        assert answer is not None and answer.code == OK
    await group.until(lambda: len(group.bodies(old)) == 20)
    await group.clock.run_for(90_000)
    assert await group.send(b"newest") == OK
    await group.clock.run_for(1000)
    group.crash(old)
    await group.until(lambda: group.masters and old not in group.masters)
    new = group.brokers[group.master]
    await group.clock.run_for(3000)
    assert len(group.bodies(group.master)) == 21
    assert new.delay.timer.progress.queue_offset == 20
    assert new.delay.timer._timers.counts(0) == [], "nothing of it is in the wheel of the new master"


async def test_a_new_master_ends_transactions_while_sends_come_without_a_pause(group: ReplicaGroup) -> None:
    old = group.master
    assert await group.send(b"first") == OK
    half = await ask(group, old, RequestCode.SEND_MESSAGE_V2, send_header(properties=HALF, sys_flag=4), b"half")
    assert half is not None and half.code == OK
    await group.clock.run_for(500)
    group.net.delay_ms = (4, 4)
    busy = asyncio.ensure_future(_sends_without_a_pause(group))
    await group.clock.run_for(50)
    group.crash(old)
    await group.until(lambda: group.masters and old not in group.masters)
    new = group.master
    place = group.brokers[new].store.queue_entries("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, 1)[0][0]  # type: ignore[arg-type]
    end = EndTransactionHeader(
        producer_group="p", tran_state_table_offset=0, commit_log_offset=place, commit_or_rollback=8, msg_id="K1"
    )
    ended = await ask(group, new, RequestCode.END_TRANSACTION, end)
    busy.cancel()
    assert ended is not None and ended.code == OK
    assert b"half" in group.bodies(new)


async def _sends_without_a_pause(group: ReplicaGroup) -> None:
    """One each 4 ms to whatever master there is, and so always one that is not confirmed yet."""
    sends = []
    while True:
        for host in group.masters:
            command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(), b"x")
            sends.append(asyncio.ensure_future(group.client.invoke(f"{host}:10911", command, 3000)))
            sends[-1].add_done_callback(lambda sent: sent.cancelled() or sent.exception())
        await group.clock.sleep(0.004)


async def test_a_recall_counts_though_its_master_is_lost_at_once(group: ReplicaGroup) -> None:
    """It may be sent again to the new master, which has it then twice."""
    old = group.master
    handles = []
    for number in range(4):
        header = send_header(properties=f"TIMER_DELAY_MS\x0120000\x02UNIQ_KEY\x01K{number}\x02")
        answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, header, b"%d" % number)
        assert answer is not None and answer.code == OK and answer.fields is not None
        handles.append(answer.fields["recallHandle"])
    for handle in handles[:2]:
        answer = await ask(group, old, RequestCode.RECALL_MESSAGE, RecallHeader(topic="T", recall_handle=handle))
        assert answer is not None and answer.code == OK
    group.crash(old)
    await group.until(lambda: group.masters and old not in group.masters)
    for handle in handles[1:3]:
        header = RecallHeader(topic="T", recall_handle=handle)
        answer = await ask(group, group.master, RequestCode.RECALL_MESSAGE, header)
        assert answer is not None and answer.code == OK
    await group.clock.run_for(25_000)
    assert group.bodies(group.master) == [b"3"]


async def test_a_recall_that_the_replicas_lack_is_not_acknowledged(group: ReplicaGroup) -> None:
    """The new master would deliver the message."""
    old = group.master
    header = send_header(properties="TIMER_DELAY_MS\x0120000\x02")
    answer = await ask(group, old, RequestCode.SEND_MESSAGE_V2, header, b"stays")
    assert answer is not None and answer.fields is not None
    handle = answer.fields["recallHandle"]
    await group.clock.run_for(1000)
    cut_off(group, old)
    answer = await ask(group, old, RequestCode.RECALL_MESSAGE, RecallHeader(topic="T", recall_handle=handle))
    assert answer is None or answer.code != OK
