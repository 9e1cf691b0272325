"""One history of a query that writes with exactly_once, from one seed: workers, drivers and the broker die at any time.

Each try of a batch has a plan of its own: other partitions, other order. Drivers and workers that were given up may
live on for a while beside their successors.

Owns        the query as Spark would run it, the deaths, the rules that hold all the time and at the end.
Must not know   how a batch is decided and ended.

Rules: at no moment does the topic hold a message of a batch that is not decided, of another attempt than the decided
one, or one twice. At the end it holds each row of each batch once, and no half message is open.

Again: `python -m tests.histories.sink_history SEED` prints the trace.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import ClientInstance
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.memory_net import MemoryNet
from rocketlake.spark.sink.cluster_sends import ClusterSends
from rocketlake.spark.sink.counts import Counts, TaskDone
from rocketlake.spark.sink.exactly_once.halves import HalfMessage, HalfWriter, half_properties
from rocketlake.spark.sink.exactly_once.process import attempt_of_tasks, batch_end, open_journal
from rocketlake.spark.sink.exactly_once.records import Record, decode_list, decode_record
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.options import SinkOptions, parse_options
from rocketlake.store.config import StoreConfig
from rocketlake.testing.dying_broker import HOST, DyingBroker
from rocketlake.testing.seeded_run import print_and_exit, run_seeded
from rocketlake.testing.transaction_history import await_halves_ended

__all__ = ["QUEUES", "SinkHistory", "read", "run_history", "write_partition"]

_TOPIC, _DECISIONS, _QUERY, QUEUES = "T", "T__decisions", "q", 2
_NAMESRV = "10.0.0.1"
_TRIES_MAX = 40
_TROUBLED = 12
"""Drivers and workers die in so many tries only: a history comes to its end."""
_SETTLE_SECONDS = 300.0


class Died(Exception):
    """A process of the query is dead."""


class Process:
    """A worker, or a driver: its links, and its work."""

    def __init__(self, history: SinkHistory, name: str) -> None:
        self.name = name
        self.host = f"10.0.{2 + history.processes // 200}.{1 + history.processes % 200}"
        self.network = history.net.host(self.host)
        config = ClientConfig(namesrv=f"{_NAMESRV}:9876", client_ip=name, instance_name=name)
        self.client = ClientInstance(config, clock=history.clock, network=self.network)
        self.cluster = ClusterSends(self.client, asyncio.get_running_loop())
        history.processes += 1

    async def run(self, work: Coroutine[Any, Any, Any], dies_after: float | None) -> Any:
        """The outcome of the work. Died: the process died before, after so many seconds."""
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait([task], timeout=dies_after)
        if done:
            return task.result()
        task.cancel()
        self.network.crash()
        raise Died(self.name)


class SinkHistory:
    """One run: `trace` are its events, `problems` the rules that it broke."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.seed = seed
        self.clock = clock
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.processes = 0
        self.crashes = self.tries = self.found_decided = self.looks = self.delivered = 0
        self._random = choice = random.Random(f"sink {seed}")
        self.net = MemoryNet(seed, clock=clock, delay_ms=(0.1, 3.0))
        # A power cut takes what is not on disk: only with SYNC_FLUSH is an acknowledged half message safe.
        self._has_power_cuts = choice.random() < 0.5
        store = StoreConfig(
            flush_disk_type="SYNC_FLUSH" if self._has_power_cuts else "ASYNC_FLUSH",
            commit_log_file_bytes=64 * 1024,
            consume_queue_file_bytes=20 * 100,
            index_slots=100,
            index_entries=1000,
        )
        config = BrokerConfig(
            broker_name="b",
            listen_host=HOST,
            listen_port=10911,
            fast_listen_port=0,
            store_root=Path("/store"),
            namesrv_addresses=(f"{_NAMESRV}:9876",),
            transaction_timeout_ms=choice.choice((300, 1500)),
            transaction_check_interval_ms=choice.choice((400, 2000)),
            transaction_checks_max=1_000_000,  # these histories do not test giving up
            transaction_op_interval_ms=choice.choice((100, 3000)),
        )
        self._node = DyingBroker(config, store, self.net, clock, choice)
        self._options = self._make_options()
        self._batches = [
            [b"%d-%d" % (batch, row) for row in range(choice.choice((0, 1, 5, 20)))]
            for batch in range(choice.randint(1, 4))
        ]
        self._rest: set[asyncio.Task[Any]] = set()
        self._is_calm = False
        self._looked_at = -1

    def _make_options(self) -> SinkOptions:
        given = {
            "namesrvAddr": f"{_NAMESRV}:9876",
            "topic": _TOPIC,
            "checkpointLocation": "/checkpoint",
            "deliveryGuarantee": "exactly_once",
            "batchTimeoutMs": str(self._random.choice((1500, 8000))),
            "sendTimeoutMs": "1000",
            "deliveryTimeoutMs": "15000",
            "retryIntervalMs": "50",
        }
        return parse_options(given, streaming=True)

    def note(self, text: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self.clock.monotonic():9.4f} {text}")

    async def live(self) -> None:
        """The whole run."""
        config = NameServerConfig(listen_host=_NAMESRV, kv_config_path=Path("/kv.json"))
        network = self.net.host(_NAMESRV)
        server = NameServer(config, clock=self.clock, files=MemoryFiles(clock=self.clock), network=network)
        await server.start()
        await self._up()
        reader = asyncio.ensure_future(self._look_on())
        trouble = asyncio.ensure_future(self._trouble())
        for batch in range(len(self._batches)):
            await self._run_batch(batch)
        self._is_calm = True
        await trouble
        self.note("calm")
        await self._settle()
        reader.cancel()
        self._check_end()
        for task in self._rest:
            task.cancel()
        await asyncio.gather(*self._rest, return_exceptions=True)
        await server.stop()
        await self._node.close()

    # -- the broker ----------------------------------------------------------------------------------------------------

    async def _up(self) -> None:
        broker = await self._node.start()
        for topic in (_TOPIC, _DECISIONS):
            if topic not in broker.topics:
                broker.topics.put(TopicConfig(topic, read_queues=QUEUES, write_queues=QUEUES))
        broker.ground.saver.save_soon()
        await broker.cluster.registration.register()
        self.note(f"broker up, its log ends at {broker.store.max_physical_offset}")

    async def _trouble(self) -> None:
        choice = self._random
        for _ in range(choice.choice((0, 1, 1, 2, 3))):
            await self.clock.sleep(choice.choice((0.05, 0.2, 0.5)) * choice.random())
            if self._is_calm:
                return
            self.crashes += 1
            if choice.random() < 0.2:
                self.note("broker stops")
                await self._node.stop()
            else:
                power = self._has_power_cuts and choice.random() < 0.5
                await self._node.die(choice.randint(0, 30), choice.choice((0, 0, 50)), 0.5, power=power)
                self.note("broker loses power" if power else "broker is killed")
            await self.clock.sleep(choice.choice((0.01, 0.5)))
            await self._up()

    # -- the query -----------------------------------------------------------------------------------------------------

    async def _run_batch(self, batch: int) -> None:
        for _ in range(_TRIES_MAX):
            self.tries += 1
            driver = Process(self, f"driver{self.tries}")
            await driver.client.start()
            try:
                if await self._try(driver, batch):
                    self.note(f"batch {batch} is committed by {driver.name}")
                    return
            except (RocketLakeError, Died) as error:
                self.note(f"batch {batch}, {driver.name}: {type(error).__name__}: {error}"[:300])
                self._let_go(driver)
                await self.clock.sleep(0.1)
        raise AssertionError(f"batch {batch} was tried {_TRIES_MAX} times")

    async def _try(self, driver: Process, batch: int) -> bool:
        """One driver, one plan; False if it dies between the sink's commit and Spark's."""
        choice = self._random
        done = await self._tasks(batch, self._plan(batch))
        attempt = attempt_of_tasks(done)
        self.found_decided += sum(not task.lists and task.counts.rows > 0 for task in done)

        async def commit() -> None:
            journal = await open_journal(driver.cluster, self._options, _QUERY)
            await batch_end(journal, self._options).commit(attempt)

        work = commit()
        if self.tries < _TROUBLED and choice.random() < 0.2:
            self._beside(work)
            self._beside(self._part_from(driver))
            await self.clock.sleep(choice.uniform(0, 0.05))
            return False
        dies_after = choice.uniform(0, 0.1) if choice.random() < 0.4 and self.tries < _TROUBLED else None
        try:
            await driver.run(work, dies_after)
        except RocketLakeError:
            journal = await open_journal(driver.cluster, self._options, _QUERY)
            await batch_end(journal, self._options).abort(attempt)
            raise
        return not (choice.random() < 0.15 and self.tries < _TROUBLED)

    async def _part_from(self, driver: Process) -> None:
        """This driver is thought dead and lives on: its requests come late, beside those of its successor."""
        choice = self._random
        await self.clock.sleep(choice.uniform(0, 0.06))
        self.note(f"{driver.name} is cut off, and lives on")
        self.net.cut_way(driver.host, HOST)
        await self.clock.sleep(choice.choice((0.02, 0.1, 0.5, 2.0)) * choice.random())
        self.note(f"{driver.name} is heard again")
        self.net.heal()

    def _plan(self, batch: int) -> list[list[bytes]]:
        rows = list(self._batches[batch])
        self._random.shuffle(rows)
        parts: list[list[bytes]] = [[] for _ in range(self._random.randint(1, 3))]
        for row in rows:
            self._random.choice(parts).append(row)
        return parts

    async def _tasks(self, batch: int, plan: list[list[bytes]]) -> list[TaskDone]:
        tasks = [asyncio.ensure_future(self._partition(batch, number, rows)) for number, rows in enumerate(plan)]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            if self._random.random() < 0.5:
                for task in tasks:
                    task.cancel()
            self._rest.update(tasks)
            raise

    async def _partition(self, batch: int, number: int, rows: list[bytes]) -> TaskDone:
        choice = self._random
        for attempt in range(3):
            worker = Process(self, f"w{batch}.{number}.{attempt}.{self.processes}")
            await worker.client.start()
            dies_after = choice.uniform(0, 0.05) if choice.random() < 0.15 and self.tries < _TROUBLED else None
            try:
                identity = TaskIdentity(_QUERY, batch, number)
                task = write_partition(worker.cluster, self._options, identity, rows, choice)
                return await worker.run(task, dies_after)
            except Died:
                self.note(f"{worker.name} dies")
            finally:
                self._let_go(worker)
        raise Died(f"task {number}")

    def _beside(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        self._rest.add(task)

    def _let_go(self, process: Process) -> None:
        """Its links stay open for a while: brokers may ask it."""

        async def end() -> None:
            await self.clock.sleep(self._random.choice((0.0, 1.0, 30.0)))
            await process.client.stop()

        self._beside(end())

    # -- the rules -----------------------------------------------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            self._look()
            await self.clock.sleep(0.001)

    def _look(self) -> None:
        broker = self._node.broker
        if broker is None or self.problems or broker.store.max_physical_offset == self._looked_at:
            return
        self._looked_at = broker.store.max_physical_offset
        self.looks += 1
        found = [message for queue in range(QUEUES) for message in read(broker, _TOPIC, queue)]
        if not found:
            return
        decided = decisions(broker)
        prefixes = {batch: prefixes_of(broker, record) for batch, record in decided.items()}
        for body, count in Counter(message.body for message in found).items():
            if count > 1:
                self.problems.append(f"row {body!r} is there {count} times")
        for message in found:
            batch = int(message.body.partition(b"-")[0])
            if batch not in decided:
                self.problems.append(f"row {message.body!r} is there, and its batch is not decided")
            elif message.unique_key[:24] not in prefixes[batch]:
                self.problems.append(f"row {message.body!r} is of another attempt than the decided one")

    async def _settle(self) -> None:
        """One process of the query is left, which brokers ask; no half message stays open."""
        process = Process(self, "last")
        await process.client.start()
        await open_journal(process.cluster, self._options, _QUERY)
        await await_halves_ended(self.clock, self._running, _SETTLE_SECONDS, self.problems)
        await process.client.stop()

    def _check_end(self) -> None:
        self._looked_at = -1
        self._look()
        broker = self._running()
        found = Counter(message.body for queue in range(QUEUES) for message in read(broker, _TOPIC, queue))
        self.delivered = found.total()
        wanted = Counter(row for rows in self._batches for row in rows)
        if found != wanted:
            self.problems.append(f"missing: {dict(wanted - found)}, too many: {dict(found - wanted)}")

    def _running(self) -> Broker:
        assert self._node.broker is not None
        return self._node.broker


async def write_partition(
    cluster: ClusterSends, options: SinkOptions, identity: TaskIdentity, rows: list[bytes], choice: random.Random
) -> TaskDone:
    """One task as half_task.py does it, on the loop."""
    journal = await open_journal(cluster, options, identity.query)
    if (await journal.standing(identity.batch)).decision is not None:
        return TaskDone(identity, Counts(rows=len(rows)))
    seconds = options.batch_timeout_ms // 1000
    writer = HalfWriter(journal.calls, half_properties(journal.calls.group, identity.query, identity.batch, seconds))
    halves = []
    for number, body in enumerate(rows):
        properties = property_text.encode({names.UNIQUE_KEY: f"{writer.prefix}{number:08X}"})
        halves.append(HalfMessage(number, MessageQueue(options.topic, "b", choice.randrange(QUEUES)), body, properties))
    for first in range(0, len(halves), 7):
        await writer.write(halves[first : first + 7])
    key = f"{identity.query}/{identity.batch}"
    lists = [await journal.add_list(each, key, identity.partition) for each in writer.lists()]
    return TaskDone(identity, Counts(rows=len(rows), messages=len(rows)), tuple(lists), writer.born_ms)


def read(broker: Broker, topic: str, queue_id: int) -> list[StoredMessage]:
    """All messages of a queue that a consumer could read now."""
    found: list[StoredMessage] = []
    offset = 0
    while (got := broker.store.get(topic, queue_id, QueueOffset(offset), 1000, 1 << 24)).count:
        found += decode_records(b"".join(got.slices))
        offset = got.next_offset
    return found


def decisions(broker: Broker) -> dict[int, Record]:
    """The decision of each batch by the rule of records.py, read from the start of the topic."""
    aborted: set[tuple[int, str]] = set()
    decided: dict[int, Record] = {}
    for message in read(broker, _DECISIONS, 0):
        record = decode_record(message.body, "decisions")
        if record.kind == "abort":
            aborted.add((record.batch, record.attempt))
            continue
        is_late = record.batch < max(decided, default=0)
        if record.kind == "commit" and (record.batch, record.attempt) not in aborted and not is_late:
            decided.setdefault(record.batch, record)
    return decided


def prefixes_of(broker: Broker, record: Record) -> set[str]:
    """The starts of the unique keys of all messages that belong to the decision."""
    lists = {queue: read(broker, _DECISIONS, queue) for queue, _ in record.lists}
    return {
        decode_list(message.body, "lists").prefix
        for queue, offset in record.lists
        for message in lists[queue]
        if message.queue_offset == offset
    }


def run_history(seed: int) -> SinkHistory:
    """One run. Equal seeds give equal traces."""
    clock = ManualClock()
    history = SinkHistory(seed, clock)
    luck = random.Random(seed)
    with mock.patch.object(secrets, "token_hex", lambda count: luck.randbytes(count).hex()):
        run_seeded(history, seed, clock)
    return history


if __name__ == "__main__":
    print_and_exit(run_history(int(sys.argv[1])))
