"""One history of transactions on one broker, from one seed, with a broker that dies at any write.

Ends come twice, late, never or in another order. Several producers answer questions, or none does. Local transactions
take long. The broker puts half messages back, and gives places out again after power cuts.

Owns        the schedule of sends, answers, repeats and kills; the rules that hold when all has settled.
Must not know   how a broker keeps transactions.

Rules: a committed half message is delivered once, a rolled back one never; the broker asks about no half message for
ever. A half message whose send was not acknowledged, or that a power cut took with ASYNC_FLUSH, is delivered at most
once.

Again: `python -m rocketlake.testing.transaction_history SEED` prints the trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Handler, Reply, Request
from rocketlake.protocol.bodies.heartbeat import Heartbeat, ProducerEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendHeaderV2, SendReplyHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.dying_broker import HOST, DyingBroker
from rocketlake.testing.seeded_run import print_and_exit, run_seeded

__all__ = ["TransactionHistory", "await_halves_ended", "run_history"]

_TOPIC, _GROUP, _QUEUES = "paid", "payers", 2
_COMMIT, _ROLLBACK, _UNKNOWN = 8, 12, 0
_NAMES = {_COMMIT: "commit", _ROLLBACK: "rollback", _UNKNOWN: "unknown"}
_ADDRESS = f"{HOST}:10911"
_SETTLE_SECONDS = 120.0
_ASK_MS = 2000.0
_HEARTBEAT_SECONDS = 10.0
Place = tuple[int, int]
"""(physical offset, half queue offset) as a producer was told."""


@dataclass
class _Half:
    """One half message, as its producer knows it."""

    name: str
    decision: int
    unique_key: str
    is_decided: bool = False
    sender: NetClient | None = None
    acked: Place | None = None
    is_lost: bool = False
    """A power cut may have taken it."""
    places: list[Place] = field(default_factory=list)


class TransactionHistory:
    """One run: `trace` are its events, `problems` the rules that it broke."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.seed = seed
        self._ends_one_way = seed % 2 == 1
        """Ends come as Java's clients send them: one-way, by the link of the half message; so the broker's runs take
        them (broker/hot/end_runs.py). Else ends want an answer and come by any link."""
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.questions = 0
        self.crashes = 0
        self.delivered = 0
        self._clock = clock
        self._random = choice = random.Random(f"transactions {seed}")
        self._net = MemoryNet(seed, clock=clock, delay_ms=(0.1, 3.0))
        self._store = StoreConfig(
            flush_disk_type=choice.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            commit_log_file_bytes=choice.choice((8, 64)) * 1024,
            consume_queue_file_bytes=20 * choice.choice((7, 100)),
            index_slots=10,
            index_entries=100,
            flush_least_pages=choice.choice((0, 4)),
            write_pool_enabled=choice.random() < 0.1,
            write_pool_buffers=3,
        )
        config = BrokerConfig(
            broker_name="b",
            listen_host=HOST,
            listen_port=10911,
            fast_listen_port=0,
            store_root=Path("/store"),
            default_topic_queues=_QUEUES,
            offset_save_interval_ms=choice.choice((500, 5000)),
            transaction_timeout_ms=choice.choice((300, 1500)),
            transaction_check_interval_ms=choice.choice((400, 2000)),
            transaction_checks_max=1_000_000,  # these histories do not test giving up
            transaction_op_interval_ms=choice.choice((100, 3000)),
            transaction_op_bytes_max=choice.choice((4, 4096)),
        )
        self._node = DyingBroker(config, self._store, self._net, clock, choice)
        self._halves: dict[str, _Half] = {}
        self._producers: list[NetClient] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._is_calm = False

    def note(self, text: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self._clock.monotonic():9.4f} {text}")

    async def live(self) -> None:
        """The whole run."""
        for number in range(2):
            network = self._net.host(f"10.0.1.{number}")
            handlers: dict[int, Handler] = {RequestCode.CHECK_TRANSACTION_STATE: self._answer}
            self._producers.append(NetClient(None, self._clock, handlers, network=network))
        self._errand(self._heartbeats())
        await self._up()
        count = self._random.randint(3, 8)
        work = [self._send_in_transaction(f"t{number}") for number in range(count)]
        await asyncio.gather(self._trouble(), *work)
        self._is_calm = True
        self.note("calm")
        await self._settled()
        await self._everything_again()
        self._check_delivered(self._running())
        for producer in self._producers:
            await producer.close()
        await self._node.close()
        for errand in self._errands:
            errand.cancel()

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _running(self) -> Broker:
        assert self._node.broker is not None
        return self._node.broker

    async def _up(self) -> None:
        broker = await self._node.start()
        if _TOPIC not in broker.topics:
            broker.topics.put(TopicConfig(_TOPIC, read_queues=_QUEUES, write_queues=_QUEUES))
            broker.ground.saver.save_soon()
        end = broker.store.max_physical_offset
        self.note(f"broker up, its log ends at {end}")
        for half in self._halves.values():
            if half.acked is not None and not half.is_lost and not _lies(broker, half):
                half.is_lost = True
                self.note(f"{half.name} is lost")
                if self._store.sync_flush:
                    self.problems.append(f"{half.name} was acknowledged, and its half message is gone")
        for producer in self._producers:
            self._errand(self._hello(producer))

    async def _heartbeats(self) -> None:
        while True:
            await self._clock.sleep(_HEARTBEAT_SECONDS)
            for producer in self._producers:
                await self._hello(producer)

    async def _hello(self, producer: NetClient) -> None:
        body = Heartbeat(
            client_id=f"c{self._producers.index(producer)}", producers=[ProducerEntry(group_name=_GROUP)]
        ).encode()
        for _ in range(10):
            with contextlib.suppress(RocketLakeError):
                await producer.invoke(_ADDRESS, Command.request(RequestCode.HEART_BEAT, body=body), _ASK_MS)
                return
            await self._clock.sleep(0.1)

    async def _trouble(self) -> None:
        choice = self._random
        for _ in range(choice.choice((0, 1, 1, 2, 2, 3, 5))):
            await self._clock.sleep(choice.choice((0.0, 0.2, 1.0, 4.0)) * choice.random())
            self.crashes += 1
            if choice.random() < 0.2:
                self.note("broker stops")
                await self._node.stop()
            else:
                power = choice.random() < 0.3
                changes, torn = choice.choice((0, 3, 30)), choice.choice((0, 0, 50))
                changes = choice.randint(0, changes)
                await self._node.die(changes, torn, choice.choice((0.05, 3.0)), power=power)
                self.note("broker loses power" if power else "broker is killed")
            await self._clock.sleep(choice.choice((0.01, 1.0)))
            await self._up()

    # -- producers -----------------------------------------------------------------------------------------------------

    async def _send_in_transaction(self, name: str) -> None:
        choice = self._random
        await self._clock.sleep(choice.uniform(0, 6))
        decision = choice.choice((_COMMIT, _COMMIT, _ROLLBACK))
        for attempt in range(3):
            half = _Half(f"{name}.{attempt}", decision, f"{int(name[1:]):032X}", choice.random() < 0.3)
            self._halves[half.name] = half
            if await self._send(half):
                break
            half.is_decided = True
            await self._clock.sleep(choice.uniform(0, 1))
        if half.acked is None:
            return
        await self._clock.sleep(choice.choice((0.001, 0.1, 1.0, 5.0)) * choice.random())  # the local transaction
        half.is_decided = True
        if choice.random() < 0.75:
            self._tell(half, half.acked, asked=False)

    async def _send(self, half: _Half) -> bool:
        header = SendHeaderV2(
            producer_group=_GROUP,
            topic=_TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=_QUEUES,
            queue_id=self._random.randrange(_QUEUES),
            sys_flag=0,
            born_timestamp=self._clock.now_ms(),
            flag=0,
            properties=f"TRAN_MSG\x01true\x02PGROUP\x01{_GROUP}\x02UNIQ_KEY\x01{half.unique_key}\x02",
        )
        command = Command.request(RequestCode.SEND_MESSAGE_V2, header, half.name.encode())
        half.sender = self._random.choice(self._producers)
        try:
            answer = await half.sender.invoke(_ADDRESS, command, _ASK_MS)
        except RocketLakeError as error:
            self.note(f"{half.name} not sent: {type(error).__name__}")
            return False
        if answer.code:
            self.note(f"{half.name} not stored: {answer.code} {answer.remark}")
            return False
        reply = answer.header(SendReplyHeader)
        half.acked = parse_offset_message_id(reply.msg_id)[2], reply.queue_offset
        half.places.append(half.acked)
        self.note(f"{half.name} is stored at {half.acked}, to be {_NAMES[half.decision]}")
        return True

    def _tell(self, half: _Half, place: Place, *, asked: bool) -> None:
        """Tell the broker the end: once, twice, late, or not at all."""
        choice = self._random
        times = 1 if self._is_calm else choice.choice((0, 1, 1, 1, 2, 3))
        for _ in range(times):
            delay = 0.0 if self._is_calm else choice.choice((0.0, 0.0, 0.3, 3.0, 10.0)) * choice.random()
            self._errand(self._end(half, place, delay, half.decision, asked))

    async def _end(self, half: _Half, place: Place, delay: float, decision: int, asked: bool) -> None:
        await self._clock.sleep(delay)
        header = EndTransactionHeader(
            topic=_TOPIC,
            producer_group=_GROUP,
            tran_state_table_offset=place[1],
            commit_log_offset=place[0],
            commit_or_rollback=decision,
            from_transaction_check=asked,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
        )
        command = Command.request(RequestCode.END_TRANSACTION, header)
        try:
            if self._ends_one_way and half.sender is not None:
                await half.sender.invoke_oneway(_ADDRESS, command, _ASK_MS)
                became = "told"
            else:
                answer = await self._random.choice(self._producers).invoke(_ADDRESS, command, _ASK_MS)
                became = f"{answer.code} {answer.remark or ''}"
        except RocketLakeError as error:
            became = type(error).__name__
        self.note(f"{half.name} {_NAMES[decision]} of {place}{' (asked)' if asked else ''}: {became}")

    def _answer(self, request: Request) -> Reply:
        """A broker asks a producer."""
        header = request.header(CheckTransactionHeader)
        (message,) = decode_records(request.body)
        half = self._halves[message.body.decode()]
        place = header.commit_log_offset, header.tran_state_table_offset
        self.questions += 1
        half.places.append(place)
        self.note(f"{half.name} is asked about at {place}")
        if half.is_decided:
            self._tell(half, place, asked=True)
        elif self._random.random() < 0.5:
            self._errand(self._end(half, place, 0.0, _UNKNOWN, True))
        return Reply()

    def _errand(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _settled(self) -> None:
        """Wait until no half message is open and the broker asks no more."""
        await await_halves_ended(self._clock, self._running, _SETTLE_SECONDS, self.problems)
        asked = self.questions
        await self._clock.sleep(5)
        if self.questions != asked:
            self.problems.append("a producer is asked about a half message that is ended")

    async def _everything_again(self) -> None:
        """Send each end once more, for all places of its half message: now, and after a restart."""
        for restart in (False, True):
            if restart:
                await self._node.stop()
                await self._up()
            for half in self._halves.values():
                for place in half.places[:4]:
                    await self._end(half, place, 0.0, half.decision, asked=True)
        await self._settled()

    def _check_delivered(self, broker: Broker) -> None:
        found = Counter(read_bodies(broker))
        self.delivered = found.total()
        for name, half in self._halves.items():
            times = found.pop(name, 0)
            if times and half.decision == _ROLLBACK:
                self.problems.append(f"{name} was rolled back and is there {times} times")
            elif times > 1:
                self.problems.append(f"{name} is there {times} times")
            elif not times and half.decision == _COMMIT and half.acked is not None and not half.is_lost:
                self.problems.append(f"{name} was committed and is not there")
        if found:
            self.problems.append(f"nobody sent {dict(found)}")


def _lies(broker: Broker, half: _Half) -> bool:
    """True when the half message is still at the place its producer was told; a power cut may have torn it."""
    record = broker.store.read_record(PhysicalOffset(half.acked[0])) if half.acked else None
    if record is None:
        return False
    message = decode_record(record, check_crc=False)
    return message.body == half.name.encode() and message.properties.get("REAL_TOPIC") == _TOPIC


async def await_halves_ended(
    clock: ManualClock, running: Callable[[], Broker], seconds: float, problems: list[str]
) -> None:
    """Wait until the broker that runs has no half message open; one that stays so for `seconds` is a problem."""
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        await clock.sleep(1)
        broker = running()
        end = broker.store.max_offset(HALF_TOPIC, 0)
        if broker.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) in (end, end if end else -1):
            return
    problems.append(f"half messages are open {seconds:g} s after all was calm")


def read_bodies(broker: Broker) -> list[str]:
    """The bodies of all messages of the topic."""
    bodies: list[str] = []
    for queue_id in range(_QUEUES):
        for offset in range(broker.store.max_offset(_TOPIC, queue_id)):
            read = broker.store.get(_TOPIC, queue_id, QueueOffset(offset), 1, 1 << 20)
            bodies += [message.body.decode() for message in decode_records(b"".join(read.slices))]
    return bodies


def run_history(seed: int) -> TransactionHistory:
    """One run. Equal seeds give equal traces."""
    clock = ManualClock()
    history = TransactionHistory(seed, clock)
    run_seeded(history, seed, clock)
    return history


if __name__ == "__main__":
    print_and_exit(run_history(int(sys.argv[1])))
