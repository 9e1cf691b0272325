"""Lists of transactions without an end, page by page, while checks and ends go on; dialogues: tests/scenarios."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import RareWarnings
from rocketlake.base.worker import HandWorker, Worker
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.processors.half_list import HalfList
from rocketlake.broker.transaction.ledger import Standing
from rocketlake.broker.transaction.resume import ResumeCheck
from rocketlake.codec import property_text
from rocketlake.model.message_id import offset_message_id
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.reply_steps import in_steps
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.bodies.transaction import HalfMessages
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.headers.transaction import HalfMessagesHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.results import PutMessage
from tests.unit.broker.transaction.test_check import GIVEN_UP, World


def no_check(_topic: str) -> None:
    """Everybody may."""


class Bench(World):
    """A broker's half messages, and an administrator who asks for them."""

    def __init__(self, reads: Worker | None = None) -> None:
        super().__init__(reads)
        self.turns = Turns(self.clock, 0.0005, brief_seconds=-1.0)
        cold = ColdRequests(self.live, self.store, self.turns)
        self.listed = HalfList(self.store, self.ledger, self.producers, cold, lambda: ("10.0.0.1", 1))
        self.answers: list[Reply] = []

    def ask(self, **header: Any) -> Reply | Held:
        command = Command.request(RequestCode.GET_HALF_MESSAGES, HalfMessagesHeader(**header))
        warnings = RareWarnings(logging.getLogger("test"), clock=self.clock)
        link = Link(Endpoint(Dispatcher([]), NetLimits(), self.clock, Codec.JSON, warnings, self.turns))
        link.answer = lambda _request, reply: self.answers.append(reply)  # type: ignore[method-assign]
        request = Request(command, link, 0.0)
        return in_steps(self.listed.halves, self.turns, self.clock)(request)

    def page(self, **header: Any) -> HalfMessages:
        reply = self.ask(**header)
        assert isinstance(reply, Reply)
        return HalfMessages.decode(bytes(reply.body))

    def ids(self, **header: Any) -> list[str]:
        return [half.transaction for half in self.page(**header).halves]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.store.start()
    yield bench
    await bench.store.stop()


async def test_open_transactions_are_listed_and_ended_ones_are_not(bench: Bench) -> None:
    for key in "abc":
        bench.put(UNIQ_KEY=key, KEYS=f"order {key}", PGROUP="dead" if key == "c" else "g")
    bench.ops.end(bench.lying()[1], Standing.ROLLED_BACK)
    first, last = bench.page().halves
    assert (first.transaction, first.topic, first.group, first.keys) == ("a", "T", "g", "order a")
    assert (first.producers, first.checked, first.born, first.name) == (1, 0, bench.clock.now_ms(), 0)
    assert (last.transaction, last.group, last.producers, last.name) == ("c", "dead", 0, 2)
    assert bench.ids(is_dead=True) == ["c"]
    assert bench.ids(group="g") == ["a"]
    assert (bench.ids(topic="T"), bench.ids(topic="U")) == (["a", "c"], [])


async def test_one_that_was_asked_about_is_listed_once_at_its_newest_copy(bench: Bench) -> None:
    born = bench.clock.now_ms()
    bench.put()
    await bench.walk()
    await bench.walk()
    (half,) = bench.page().halves
    copy = bench.lying()[-1]
    assert (half.name, half.checked, half.born, half.stored) == (0, 2, born, copy.store_ms)
    assert (copy.queue_offset, half.id) == (2, offset_message_id("10.0.0.1", 1, copy.physical_offset))


async def test_pages_go_on_behind_a_walk_and_lose_nothing(bench: Bench) -> None:
    """The walk puts all five to the end: those listed already come again, with the same name."""
    for number in range(5):
        bench.put(UNIQ_KEY=str(number))
    page = bench.page(limit=2)
    assert [half.name for half in page.halves] == [0, 1]
    assert page.next_offset == 2
    await bench.walk()
    names = []
    while page.next_offset:
        page = bench.page(limit=2, offset=page.next_offset)
        names += [half.name for half in page.halves]
    assert names == [0, 1, 2, 3, 4]


async def test_no_answer_reads_more_than_its_share(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that fits nothing must not read all there is for one answer."""
    monkeypatch.setattr("rocketlake.broker.processors.half_list._LOOKED_MAX", 3)
    for key in "abcd":
        bench.put(UNIQ_KEY=key, PGROUP="h" if key == "d" else "g")
    page = bench.page(group="h")
    assert (page.halves, page.next_offset) == ([], 3)
    page = bench.page(group="h", offset=3)
    assert ([half.transaction for half in page.halves], page.next_offset) == (["d"], 0)


async def test_a_long_list_lets_other_requests_in_between(bench: Bench) -> None:
    for number in range(50):
        bench.put(UNIQ_KEY=str(number))
    bench.turns.is_brief = lambda: True  # every turn is over at once
    assert bench.ask() is HELD
    bench.ops.end(bench.lying()[30], Standing.COMMITTED)
    await bench.clock.settle()
    (reply,) = bench.answers
    listed = [half.transaction for half in HalfMessages.decode(bytes(reply.body)).halves]
    assert listed == [str(number) for number in range(50) if number != 30]


async def test_records_that_lie_on_disk_only_are_read_by_a_worker() -> None:
    reads = HandWorker()
    bench = Bench(reads)
    await bench.store.start()
    bench.put(UNIQ_KEY="old")
    bench.store.queues.flush()
    for call in ("is_resident", "pread_now"):
        bench.plan.add(Fault(call, times=1, error=None))
    assert bench.ask() is HELD
    while reads.pending:
        reads.run_one()
        await bench.clock.settle()
    (reply,) = bench.answers
    assert [half.transaction for half in HalfMessages.decode(bytes(reply.body)).halves] == ["old"]
    await bench.store.stop()


async def test_one_that_was_given_up_is_listed_as_such_until_it_is_brought_back(bench: Bench) -> None:
    bench.put(UNIQ_KEY="tired", TRANSACTION_CHECK_TIMES="15")
    bench.put(UNIQ_KEY="fresh")
    assert bench.ids(given_up=True) == []
    await bench.walk()
    assert bench.ids() == ["fresh"]
    (half,) = bench.page(given_up=True).halves
    (copy,) = bench.lying(GIVEN_UP)
    assert (half.transaction, half.checked) == ("tired", 15)
    assert half.id == offset_message_id("10.0.0.1", 1, copy.physical_offset)
    resume = ResumeCheck(bench.store, bench.ledger, bench.ops)
    resume.put_back(copy.physical_offset, no_check)
    assert (bench.ids(), bench.ids(given_up=True)) == (["fresh", "tired"], [])
    bench.ops.end(bench.lying()[-1], Standing.ROLLED_BACK)
    assert (bench.ids(), bench.ids(given_up=True)) == (["fresh"], [])


async def test_one_that_was_given_up_twice_is_listed_once(bench: Bench) -> None:
    bench.put(UNIQ_KEY="tired", TRANSACTION_CHECK_TIMES="15")
    await bench.walk()
    ResumeCheck(bench.store, bench.ledger, bench.ops).put_back(bench.lying(GIVEN_UP)[0].physical_offset, no_check)
    bench.live.update({"transactionCheckMax": "1"})
    await bench.walk()
    await bench.walk()
    _, second = bench.lying(GIVEN_UP)
    (half,) = bench.page(given_up=True).halves
    assert half.id == offset_message_id("10.0.0.1", 1, second.physical_offset)
    assert (half.stored, half.name) == (second.store_ms, 0)


async def test_one_that_another_broker_gave_up_without_a_name_is_listed(bench: Bench) -> None:
    text = property_text.encode({"REAL_TOPIC": "T", "REAL_QID": "0", "PGROUP": "g", "UNIQ_KEY": "apache"})
    bench.store.put(PutMessage(GIVEN_UP, 0, b"m", text))
    (half,) = bench.page(given_up=True).halves
    assert (half.transaction, half.name) == ("apache", -1)
    ResumeCheck(bench.store, bench.ledger, bench.ops).put_back(bench.lying(GIVEN_UP)[0].physical_offset, no_check)
    assert (bench.ids(), bench.ids(given_up=True)) == (["apache"], [])


async def test_nothing_is_listed_before_it_is_known_what_is_ended(bench: Bench) -> None:
    bench.put()
    bench.ledger.is_known = False
    with pytest.raises(RemoteError, match="does not know yet which transactions are ended"):
        bench.ask()


async def test_a_list_changes_nothing(bench: Bench) -> None:
    bench.put()
    bench.put(PGROUP="dead")
    before = bench.store.max_physical_offset, bench.ledger.position, bench.progress.saved()
    bench.page()
    bench.page(given_up=True)
    assert (bench.store.max_physical_offset, bench.ledger.position, bench.progress.saved()) == before
    assert bench.link.asked == []
