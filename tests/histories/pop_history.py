"""One history of pops on one broker, from one seed, with a broker that dies at any write, also by power cuts.

Consumers pop with short times; they acknowledge at once, late, twice or never, hear no answer, ask for other times.

Owns        the schedule of sends, pops, acknowledgements and kills; the rules that hold all the time and at the end.
Must not know   how a broker keeps what is in flight.

Rules: a message whose acknowledgement was answered in time never comes again. One that was handed out comes again when
its time is over, and not before. When all has settled every message was acknowledged once at least, and nothing is in
flight. Exempt is what a power cut may take: with ASYNC_FLUSH everything, else what was handed out and not answered for;
what is in flight when the clock is set back, for its time is another one then; and a message whose time was to be
changed by a request without an answer, for there may be two copies of it then.

Again: `python -m tests.histories.pop_history SEED [steps]` prints the trace.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pop import ChangeInvisibleReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.dying_broker import HOST, DyingBroker
from rocketlake.testing.seeded_run import print_and_exit, run_seeded
from tests.pops import PopClient, Popped
from tests.requests import send_header

__all__ = ["PopHistory", "run_history"]

_TOPIC, _GROUP, _QUEUES = "T", "g", 2
_ADDRESS = f"{HOST}:10911"
_CONSUMERS = 3
_WORK_SECONDS = 15.0
_SETTLE_SECONDS = 120.0


@dataclass
class _Sent:
    """One message, as senders and consumers know it. Times in ms of the clock that all share."""

    body: str
    is_stored: bool = False
    due_ms: int = 0
    """It must not be handed out before: the copy that was handed out last is not over. 0: nothing is known."""
    is_done: bool = False
    """Acknowledged in time: it must never be handed out again."""
    is_loose: bool = False
    """There may be two copies: its time was to be changed, and it is not known whether it was."""
    asked: int = 0
    """Acknowledgements that were sent, with an answer or without."""
    acknowledged: int = 0
    handed: int = 0


class PopHistory:
    """One run: `trace` are its events, `problems` the rules that it broke."""

    def __init__(self, seed: int, clock: ManualClock, *, steps: bool = False) -> None:
        """`steps`: the wall clock is set, back and forth."""
        self.seed = seed
        self._steps = random.Random(f"steps {seed}") if steps else None
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.crashes = self.doubles = self.again = 0
        self._clock = clock
        self._random = choice = random.Random(f"pops {seed}")
        self._net = MemoryNet(seed, clock=clock, delay_ms=(0.1, 3.0))
        self._store = StoreConfig(
            flush_disk_type=choice.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            commit_log_file_bytes=choice.choice((16, 64)) * 1024,
            consume_queue_file_bytes=20 * choice.choice((20, 100)),
            index_slots=10,
            index_entries=100,
            flush_least_pages=choice.choice((0, 4)),
            timer_precision_ms=100,
            timer_log_file_bytes=choice.choice((52 * 20, 52 * 1000)),
        )
        config = BrokerConfig(
            broker_name="b",
            listen_host=HOST,
            listen_port=10911,
            fast_listen_port=0,
            store_root=Path("/store"),
            offset_save_interval_ms=choice.choice((500, 5000)),
            revive_interval_ms=choice.choice((50, 1000)),
            retry_topic_v2=choice.random() < 0.3,
        )
        self._node = DyingBroker(config, self._store, self._net, clock, choice)
        self._sent: dict[str, _Sent] = {}
        self._is_calm = False
        self._breaks = 0
        """Power cuts, and steps back of the clock."""

    def note(self, text: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self._clock.monotonic():9.4f} {text}")

    async def live(self) -> None:
        """The whole run."""
        await self._up()
        sender = self._client(0)
        consumers = [self._client(number) for number in range(1, _CONSUMERS + 1)]
        sends = self._send_all(sender, self._random.randint(5, 40))
        await asyncio.gather(self._trouble(), self._step(), sends, *map(self._consume, consumers))
        self._is_calm = True
        self.note("calm")
        await self._drain(consumers[0])
        self._check_end(self._running())
        for client in (sender, *consumers):
            await client.net.close()
        await self._node.close()

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _client(self, number: int) -> PopClient:
        net = NetClient(None, self._clock, {}, network=self._net.host(f"10.0.1.{number}"))
        client = PopClient(_ADDRESS, _GROUP, _TOPIC, net=net)
        client.clock = self._clock  # type: ignore[assignment]
        return client

    def _running(self) -> Broker:
        assert self._node.broker is not None
        return self._node.broker

    async def _up(self) -> None:
        broker = await self._node.start()
        if _TOPIC not in broker.topics:
            broker.topics.put(TopicConfig(_TOPIC, read_queues=_QUEUES, write_queues=_QUEUES))
            broker.ground.saver.save_soon()
        self.note(f"broker up, its log ends at {broker.store.max_physical_offset}")

    async def _trouble(self) -> None:
        choice = self._random
        for _ in range(choice.choice((0, 1, 1, 2, 3))):
            await self._clock.sleep(choice.uniform(0, _WORK_SECONDS / 3))
            self.crashes += 1
            if choice.random() < 0.2:
                self.note("broker stops")
                await self._node.stop()
            else:
                power = choice.random() < 0.4
                changes, torn = choice.randint(0, choice.choice((0, 3, 30))), choice.choice((0, 0, 50))
                await self._node.die(changes, torn, choice.choice((0.05, 3.0)), power=power)
                self.note("broker loses power" if power else "broker is killed")
                if power:
                    self._power_is_cut()
            await self._clock.sleep(choice.choice((0.01, 1.0)))
            await self._up()

    def _power_is_cut(self) -> None:
        """What was handed out may lie in its queue again; with ASYNC_FLUSH acknowledgements may be gone as well."""
        self._breaks += 1
        for sent in self._sent.values():
            sent.due_ms = 0
            if not self._store.sync_flush:
                sent.is_done = False

    async def _step(self) -> None:
        """Set the clock, now and then."""
        until = self._clock.monotonic() + _WORK_SECONDS
        while self._steps is not None and self._clock.monotonic() < until:
            await self._clock.sleep(self._steps.uniform(0.5, 5))
            ms = self._steps.choice((-15_000, -2500, -700, 1500, 8000))
            self.note(f"the clock is set by {ms} ms")
            self._clock.jump_wall(ms)
            if ms < 0:
                self._breaks += 1  # for what is in flight it is the same
                for sent in self._sent.values():
                    sent.due_ms = 0

    # -- senders and consumers -----------------------------------------------------------------------------------------

    async def _send_all(self, client: PopClient, count: int) -> None:
        for number in range(count):
            await self._clock.sleep(self._random.uniform(0, _WORK_SECONDS / count))
            sent = self._sent[f"m{number}"] = _Sent(f"m{number}")
            header = send_header(_TOPIC, number % _QUEUES, f"UNIQ_KEY\x01{number:032X}\x02")
            try:
                cuts = self._breaks
                answer = await client.ask(RequestCode.SEND_MESSAGE_V2, header, sent.body.encode())
            except RocketLakeError as error:
                self.note(f"{sent.body} not sent: {type(error).__name__}")
                continue
            sent.is_stored = answer.code == 0 and cuts == self._breaks
            self.note(f"{sent.body} is sent: {answer.code}")

    async def _consume(self, client: PopClient) -> None:
        choice = self._random
        until = self._clock.monotonic() + _WORK_SECONDS
        while self._clock.monotonic() < until:
            await self._clock.sleep(choice.choice((0.0, 0.1, 1.0)) * choice.random())
            invisible_ms = choice.choice((1200, 2500, 6000))
            cuts = self._breaks
            try:
                popped = await client.pop(
                    invisible_ms,
                    poll_ms=choice.choice((0, 2000)),
                    max_msg_nums=choice.choice((1, 4, 32)),
                    queue_id=choice.choice((-1, -1, 0, 1)),
                )
            except RocketLakeError as error:
                self.note(f"a pop fails: {type(error).__name__}")
                continue
            for each in popped:
                self._take(each, cuts)
            for each in popped:
                await self._settle(client, each, cuts)

    def _take(self, popped: Popped, cuts: int) -> None:
        sent = self._sent[popped.body]
        handle = popped.handle
        sent.handed += 1
        self.again += sent.handed > 1
        self.note(f"{sent.body} is handed out: {handle}, try {popped.message.reconsume_times}")
        if cuts != self._breaks or sent.is_loose:
            return
        if sent.is_done:
            self.problems.append(f"{sent.body} was acknowledged in time, and is handed out again")
        elif handle.pop_ms < sent.due_ms:
            self.problems.append(f"{sent.body} is handed out at {handle.pop_ms}, before its time {sent.due_ms} is over")
        sent.due_ms = max(sent.due_ms, handle.pop_ms + handle.invisible_ms)

    async def _settle(self, client: PopClient, popped: Popped, cuts: int) -> None:
        """Acknowledge it once, twice, late, or not at all; or ask for another time."""
        choice = self._random
        deed = choice.choice(("ack", "ack", "ack", "twice", "late", "unheard", "change", "never"))
        if deed == "late":
            await self._clock.sleep(choice.uniform(0, 4))
        if deed == "change" and not await self._change(client, popped, cuts):
            return
        if deed == "unheard":
            self._sent[popped.body].asked += 1
            command = Command.request(RequestCode.ACK_MESSAGE, client.ack_header(popped))
            try:
                await client.net.invoke_oneway(_ADDRESS, command, 1000)
            except RocketLakeError as error:
                self.note(f"{popped.body} unheard: {type(error).__name__}")
        elif deed != "never":
            for _ in range(2 if deed == "twice" else 1):
                await self._ack(client, popped, cuts)

    async def _ack(self, client: PopClient, popped: Popped, cuts: int) -> None:
        sent = self._sent[popped.body]
        due_ms = popped.handle.pop_ms + popped.handle.invisible_ms
        sent.asked += 1
        try:
            answer = await client.ack(popped)
        except RocketLakeError as error:
            self.note(f"{sent.body} ack: {type(error).__name__}")
            return
        in_time = self._clock.now_ms() < due_ms
        self.note(f"{sent.body} ack: {answer.code}, {'in time' if in_time else 'late'}")
        if answer.code == 0:
            sent.acknowledged += 1
            sent.is_done |= in_time and cuts == self._breaks

    async def _change(self, client: PopClient, popped: Popped, cuts: int) -> bool:
        """Ask for another time; False if it is not known which time counts."""
        sent = self._sent[popped.body]
        was_loose, sent.is_loose, sent.due_ms = sent.is_loose, True, 0
        old_due_ms = popped.handle.pop_ms + popped.handle.invisible_ms
        try:
            answer = await client.change(popped, self._random.choice((500, 3000)))
        except RocketLakeError as error:
            self.note(f"{sent.body} change: {type(error).__name__}")
            return False
        self.note(f"{sent.body} change: {answer.code}")
        if answer.code or self._clock.now_ms() >= old_due_ms:
            return False
        told = answer.header(ChangeInvisibleReplyHeader)
        popped.handle = replace(
            popped.handle,
            start_offset=popped.handle.offset,
            pop_ms=told.pop_time,
            invisible_ms=told.invisible_time,
            revive_queue=told.revive_qid,
        )
        if cuts == self._breaks:
            sent.is_loose = was_loose
            sent.due_ms = told.pop_time + told.invisible_time
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _drain(self, client: PopClient) -> None:
        """Pop and acknowledge until nothing is left."""
        until = self._clock.monotonic() + _SETTLE_SECONDS
        while self._clock.monotonic() < until:
            try:
                found = await client.pop(10_000, poll_ms=1000)
            except RocketLakeError as error:  # its client tries a broker that was away only after a pause
                self.note(f"a pop fails: {type(error).__name__}")
                await self._clock.sleep(0.1)
                continue
            for popped in found:
                self._take(popped, self._breaks)
                await self._ack(client, popped, self._breaks)
            if not any((await self._left(self._running())).values()):
                return
        self.problems.append(f"not all is done after {_SETTLE_SECONDS:g} s: {await self._left(self._running())}")

    async def _left(self, broker: Broker) -> dict[str, int]:
        """What is not done with: by the group, and by the search for what comes again."""
        left = {
            "revive": sum(queue.behind for queue in broker.popping.revive.queues),
            "timer": sum(count for _, count in await broker.delay.timer.counts()),
            "entering": int(broker.delay.timer.figures()["timerOffsetBehind"]),
        }
        for topic in (_TOPIC, f"%RETRY%{_GROUP}_{_TOPIC}", f"%RETRY%{_GROUP}+{_TOPIC}"):
            config = broker.topics.get(topic)
            for queue_id in range(0 if config is None else config.read_queues):
                popped = broker.popping.progress.of(_GROUP, topic, queue_id)
                ready = broker.store.max_offset(topic, queue_id) - max(0, popped.next_offset)
                left[f"{topic} {queue_id}"] = ready + popped.in_flight + popped.overdue
        return left

    def _check_end(self, broker: Broker) -> None:
        for sent in self._sent.values():
            if sent.is_stored and not sent.asked and (self._store.sync_flush or not self._breaks):
                self.problems.append(f"{sent.body} was stored, and nobody could acknowledge it")
            self.doubles += sent.acknowledged > 1


def run_history(seed: int, *, steps: bool = False) -> PopHistory:
    """One run. Equal seeds give equal traces."""
    clock = ManualClock()
    history = PopHistory(seed, clock, steps=steps)
    run_seeded(history, seed, clock)
    return history


if __name__ == "__main__":
    print_and_exit(run_history(int(sys.argv[1]), steps="steps" in sys.argv))
