"""One seeded history of a store: puts, batches, runs, deletions, clock steps, rolls, full disks, bit flips, kills.

Owns        what happens in a history, the model of what must be read, the judgement. The store is the real one, on
            files in memory; its workers run when the history says so.
Must not know   the insides of the store: it asks what any caller can ask, and damages bytes of files at rest.

What must hold after each start and at the end:
* each message that was acknowledged as the flush mode promises is read at the queue offset it was acknowledged with,
  unless its file has expired or a bit of its own record was flipped;
* no message is read twice, in another queue, or though it never was put; none of a deleted topic comes back;
* a queue offset that was acknowledged is never given out again.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus, PutMessage, PutResult, PutStatus
from tests.histories.plain_runs import plain_run

ROOT = Path("/store")
TOPICS = ("A", "B-with-a-longer-name", "C")
Queue = tuple[str, int]
_NOWHERE = 1 << 62
_HAND_DRIVEN = ("store-queues", "store-delete", "store-notes", "store-queue-files", "store-files")
"""Workers that may be slow in a history; the flush always is."""
_EQUAL_BYTES, _RECORD_BYTES = 256, 91
_PROPERTIES, _RUN_PROPERTIES = b"KEYS\x01k\x02", 42
DAMAGED_AT_REST = ("consumequeue", "index", "checkpoint", "commitlog")


class Broken(AssertionError):
    """The store broke its word; the text has the history up to there."""


@dataclass(slots=True)
class Sent:
    """A message that the store took."""

    body: bytes
    queue_offset: int
    physical_offset: int
    acknowledged: bool = False
    """The store said that it is as safe as the flush mode makes it."""
    flushed: bool = False
    """It lay below the flushed offset at some time: a power cut does not take it."""
    damaged: bool = False
    """A bit of its record was flipped, or of the entry of an expired record."""
    hidden: bool = False
    """A bit of its queue entry was flipped, and it names a place before the log's begin, as that of an expired record
    does. Nobody can tell the two apart without reading the log; a reader of the log finds the message again."""


@dataclass(slots=True)
class Model:
    """What the store must know, by queue; and bodies that must never, or need not, be read."""

    queues: dict[Queue, dict[int, Sent]] = field(default_factory=dict)
    dead: set[bytes] = field(default_factory=set)
    limbo: dict[Queue, dict[bytes, Sent]] = field(default_factory=dict)
    """Messages of topics whose deletion was not called safe: a crash may bring them back."""

    def of(self, queue: Queue) -> dict[int, Sent]:
        return self.queues.setdefault(queue, {})


class History:
    """`run` plays it; raises Broken."""

    def __init__(self, seed: int, steps: int = 60, *, kinds: int | None = None) -> None:
        """`kinds`: only the first so many kinds of steps, as when the seed was found."""
        self.seed, self.steps, self.kinds = seed, steps, kinds
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.model = Model()
        self.clock = ManualClock(settle_turns=20)
        self.disk = MemoryFiles(clock=self.clock)
        self.bodies = self.checks = 0
        self.is_equal = seed % 10 == 3
        """All records have one size, a power of two: a bit of a queue entry that flips makes it name another record."""
        self.damaged: set[int] = set()
        """Physical offsets of records in which a bit was flipped."""
        self.kept_from = _NOWHERE
        """From this physical offset on nothing may have expired yet."""
        pick = self.random
        self.config = StoreConfig(
            commit_log_file_bytes=pick.choice([2048, 4096, 16384]),
            consume_queue_file_bytes=pick.choice([100, 140, 400]),
            index_slots=7,
            index_entries=40,
            flush_disk_type=pick.choice(["SYNC_FLUSH", "ASYNC_FLUSH"]),
            flush_thorough_interval_ms=1000,
            queue_flush_thorough_interval_ms=pick.choice([2000, 60000]),
            delete_when=";".join(f"{hour:02}" for hour in range(24)),
            file_reserved_hours=72,
        )
        self.hand_driven = {name for name in _HAND_DRIVEN if pick.random() < 0.3}
        self.store: MessageStore

    # -- playing -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Play all steps on a loop of its own."""
        self.loop = asyncio.new_event_loop()
        try:
            self.open()
            for _ in range(self.steps):
                step = self.random.choices(_STEPS[: self.kinds], weights=_WEIGHTS[: self.kinds])[0]
                step(self)
                self.check_reads()
                self.checks += 1
            self.files.plan.clear()
            self.disk.capacity = 1 << 40
            self.stop_and_start()
            self.kill()
        except Broken:
            raise
        except Exception as error:
            raise self.broken(f"{type(error).__name__}: {error}") from error
        finally:
            self.cancel_all()
            self.loop.close()

    def say(self, text: str) -> None:
        self.lines.append(text)

    def broken(self, what: str) -> Broken:
        story = "\n".join(self.lines)
        flush = self.config.flush_disk_type
        return Broken(f"seed {self.seed} ({flush}, log files of {self.config.commit_log_file_bytes}): {what}\n{story}")

    def play(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def open(self, *faults: Fault) -> None:
        self.files = FaultyFiles(self.disk)
        self.files.plan.faults += faults
        self.kept_from = _NOWHERE
        self.workers: dict[str, HandWorker] = {}

        def worker(name: str) -> Worker:
            if name == "store-flush" or name in self.hand_driven:
                return self.workers.setdefault(name, HandWorker())
            return InlineWorker(name)

        self.store = MessageStore(ROOT, self.config, files=self.files, clock=self.clock, workers=worker)
        self.play(self.store.start())

    def cancel_all(self) -> None:
        async def cancel() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.play(cancel())

    @property
    def is_sync(self) -> bool:
        return self.config.sync_flush

    # -- what callers do -----------------------------------------------------------------------------------------------

    def new_body(self, queue: Queue, properties: int = 0) -> bytes:
        """`properties`: how many bytes of them its record has."""
        self.bodies += 1
        body = b"%d:" % self.bodies + b"x" * self.random.choice([0, 10, 90, 300])
        if self.is_equal:
            return body[:9].ljust(_EQUAL_BYTES - _RECORD_BYTES - len(queue[0]) - properties, b"x")
        return body

    def some_queue(self) -> Queue:
        return self.random.choice(TOPICS), self.random.randrange(2)

    def put(self) -> None:
        queue = self.some_queue()
        body = self.new_body(queue, len(_PROPERTIES))

        async def one() -> None:
            result = self.store.put(PutMessage(queue[0], queue[1], body, _PROPERTIES))
            self.took(queue, [body], result)
            await asyncio.sleep(0)

        self.play(one())

    def put_batch(self) -> None:
        queue = self.some_queue()
        many = [self.new_body(queue) for _ in range(self.random.randint(1, 6))]

        async def batch() -> None:
            encoded = encode_batch([Message(queue[0], body) for body in many])
            self.took(queue, many, self.store.put_batch(PutMessage(queue[0], queue[1], encoded)))
            await asyncio.sleep(0)

        self.play(batch())

    def put_run(self) -> None:
        """Many sends at once, as the broker's kernel gives them."""
        count = self.random.randint(1, 8)
        wanted = [(queue := self.some_queue(), self.new_body(queue, _RUN_PROPERTIES)) for _ in range(count)]

        async def run() -> None:
            made = plain_run(wanted)
            if made is None:
                return
            if not self.store.put_run(made.run):
                self.say("run refused")
                return
            for (queue, body), (offset, physical) in zip(wanted, made.places(), strict=True):
                self.took(queue, [body], PutResult(PutStatus.OK, physical, 0, offset, next_offset=made.end()))
            await asyncio.sleep(0)

        self.play(run())

    def took(self, queue: Queue, bodies: list[bytes], result: PutResult) -> None:
        if result.status is not PutStatus.OK:
            self.say(f"put to {queue} refused: {result.status.value}")
            return
        known = self.model.of(queue)
        places = result.offsets or [result.physical_offset]
        new = []
        for number, (body, physical) in enumerate(zip(bodies, places, strict=True)):
            offset = result.queue_offset + number
            if offset in known and (known[offset].acknowledged and not known[offset].damaged):
                raise self.broken(f"queue offset {offset} of {queue} is given out again; it has {known[offset]}")
            self.damaged.discard(physical)  # that end of the log was cut off
            known[offset] = Sent(body, offset, physical)
            new.append(known[offset])
        self.say(f"put {[sent.body[:8] for sent in new]} to {queue} at {result.queue_offset}, log {places[0]}")

        def done(status: PutStatus) -> None:
            for sent in new:
                sent.acknowledged = status is PutStatus.OK

        self.store.when_durable(result, wait=True, done=done)

    def delete_topic(self) -> None:
        topic = self.random.choice(TOPICS)
        queues = [queue for queue in self.model.queues if queue[0] == topic]
        gone = {queue: self.model.queues.pop(queue) for queue in queues}
        self.say(f"delete {topic}: {sum(map(len, gone.values()))} messages")
        for queue, messages in gone.items():
            self.model.limbo.setdefault(queue, {}).update({sent.body: sent for sent in messages.values()})

        before = {body for queue, old in self.model.limbo.items() if queue[0] == topic for body in old}

        def noted(error: BaseException | None) -> None:
            self.say(f"deletion of {topic} is {'safe' if error is None else f'not safe: {error}'}")
            if error is None:
                for messages in gone.values():
                    self.model.dead.update(sent.body for sent in messages.values())
                for queue in [queue for queue in self.model.limbo if queue[0] == topic]:
                    for body in self.model.limbo[queue].keys() & before:
                        self.model.dead.add(body)
                        del self.model.limbo[queue][body]

        async def delete() -> None:
            try:
                self.store.delete_topics([topic], noted)
            except StoreError as error:
                self.say(f"deletion refused: {error}")
            await asyncio.sleep(0)

        self.play(delete())

    # -- what disk, clock and workers do -------------------------------------------------------------------------------

    def workers_run(self) -> None:
        async def run() -> None:
            for name in sorted(self.workers):
                if name == "store-flush" or self.random.random() < 0.5:
                    self.workers[name].run_all()
            await asyncio.sleep(0)

        self.say("workers run")
        self.play(run())

    def time_passes(self) -> None:
        ms = self.random.choice([1, 250, 1200, 5000])
        self.say(f"{ms} ms pass")
        self.play(self.clock.run_for(ms))

    def days_pass(self) -> None:
        """Files expire. In one jump: the store's second-by-second work of three days is not played."""
        self.say("80 hours pass")
        self.kept_from = _NOWHERE
        self.clock.advance(80 * 3_600_000)
        self.play(self.clock.run_for(20_000))

    def clock_steps(self) -> None:
        ms = self.random.choice([-3_600_000, -30_000, -1_000, 30_000, 3_600_000])
        self.say(f"the wall clock steps by {ms} ms")
        self.clock.jump_wall(ms)

    def clock_jumps_by_days(self) -> None:
        """The wall clock is set forward, perhaps by mistake: no file gets older by that."""
        ms = self.random.choice([5, 400]) * 86_400_000
        self.say(f"the wall clock jumps by {ms} ms")
        folder = ROOT / "commitlog"
        old_ms = self.clock.now_ms() - self.config.file_reserved_ms
        young = [int(name) for name in self.disk.list_dir(folder) if self.disk.modified_ms(folder / name) > old_ms]
        self.kept_from = min([self.kept_from, *young])
        self.clock.jump_wall(ms)
        self.play(self.clock.run_for(20_000))
        if self.random.random() < 0.6:
            self.say("and back")
            self.clock.jump_wall(-ms)

    def disk_gets_full(self) -> None:
        part = self.random.choice(["commitlog", "consumequeue", "index", ""])
        times = self.random.randint(1, 4)
        self.say(f"{times} writes to {part or 'any file'} find the disk full")
        keep = self.random.choice([0, 7, 60])
        self.files.plan.add(Fault("pwrite", part, times=times, error=errno.ENOSPC, keep_bytes=keep))

    def disk_has_room(self) -> None:
        self.say("the disk has room again")
        self.files.plan.clear()

    # -- restarts ------------------------------------------------------------------------------------------------------

    def stop_and_start(self) -> None:
        self.files.plan.clear()
        if self.store.not_writable_reason:
            self.kill()
            return
        self.say("stop and start")
        self.note_flushed()
        for name in sorted(self.workers):
            self.play(self.workers[name].close())
        self.play(self.store.stop())
        if self.disk.exists(ROOT / "abort"):
            raise self.broken("the stop was not clean")
        for known in self.model.queues.values():
            for sent in known.values():
                sent.acknowledged = sent.flushed = True
        if self.random.random() < 0.3:
            self.flip_bit(after_crash=False)
        self.open()
        self.check_start(lambda sent: True)

    def kill(self) -> None:
        self.say("kill -9")
        self.note_flushed()
        self.cancel_all()
        self.disk = self.disk.killed()
        if self.random.random() < 0.2:
            self.flip_bit(after_crash=True)
        self.open()
        self.check_start(lambda sent: True)  # there is no write pool: what was put lies in the page cache

    def start_on_full_disk(self) -> None:
        """A store may refuse to start without room, or start without taking messages. It loses none."""
        after, times = self.random.randrange(8), self.random.choice([1, 3, -1])
        self.say(f"kill -9, and the disk is full at the start, from write {after} on, for {times}")
        self.note_flushed()
        self.cancel_all()
        self.disk = self.disk.killed()
        calls = ("pwrite", "write_bytes")
        try:
            self.open(*[Fault(call, "", after=after, times=times, error=errno.ENOSPC) for call in calls])
        except StoreError as error:
            self.say(f"it does not start: {error}")
            self.cancel_all()
            self.disk = self.disk.killed()
            self.open()
        else:
            self.put()
            self.say("the disk has room again")
            self.files.plan.clear()
            self.play(self.clock.run_for(12_000))
            self.workers_run()
        self.check_start(lambda sent: True)

    def power_cut(self) -> None:
        self.say("power cut")
        self.note_flushed()
        self.cancel_all()
        self.disk = self.disk.power_cut(self.random if self.random.random() < 0.5 else None)
        self.open()
        self.check_start(lambda sent: sent.flushed or (sent.acknowledged and self.is_sync))

    def note_flushed(self) -> None:
        for known in self.model.queues.values():
            for sent in known.values():
                sent.flushed = sent.flushed or sent.physical_offset < self.store.flushed_offset

    def flip_bit(self, *, after_crash: bool) -> None:
        """Flip one bit of a file at rest. A log is damaged only where a clean stop has said that it is whole."""
        parts = [part for part in DAMAGED_AT_REST if part != "commitlog" or not after_crash]
        part = self.random.choice(parts)
        files = [path for path in sorted(self.disk._nodes) if part in str(path) and self.disk.size(path)]
        if not files:
            return
        path = self.random.choice(files)
        data = self.disk._nodes[path].data
        written = max((place for place, byte in enumerate(data) if byte), default=0) + 1
        place = self.random.randrange(written)
        bit = 1 << self.random.randrange(8)
        data[place] ^= bit
        self.disk._nodes[path].safe = bytearray(data)
        self.say(f"bit {bit} of byte {place} of {path} flips")
        if part == "commitlog":
            self.note_damage(int(path.name) + place)
        if part == "consumequeue" and place % 20 < 8:
            self.note_hidden(path, data, place - place % 20)

    def note_hidden(self, path: Path, data: bytearray, position: int) -> None:
        """An entry names another place now; see `Sent.hidden`."""
        queue, min_physical = (path.parent.parent.name, int(path.parent.name)), self.store.min_physical_offset
        hit = self.model.of(queue).get((int(path.name) + position) // 20)
        if hit is not None and hit.physical_offset < min_physical:
            hit.damaged = True  # its record has expired: until the ends of the queues are written only the entry tells
        elif hit is not None and int.from_bytes(data[position : position + 8], "big", signed=True) < min_physical:
            hit.hidden = True
            self.say(f"that hides {hit.body[:8]!r} at {hit.queue_offset}")

    def note_damage(self, position: int) -> None:
        everything = [sent for known in self.model.queues.values() for sent in known.values()]
        before = [sent for sent in everything if sent.physical_offset <= position]
        if before:
            hit = max(before, key=lambda sent: sent.physical_offset)
            hit.damaged = True
            self.damaged.add(hit.physical_offset)
            self.say(f"that is in {hit.body[:8]!r} at {hit.queue_offset}")

    # -- judgement -----------------------------------------------------------------------------------------------------

    def check_start(self, must_survive: Callable[[Sent], bool]) -> None:
        """After a start: what had to survive did. What did not have to and did not is forgotten by the model."""
        for queue in {*self.model.queues, *self.model.limbo}:
            known, found = self.model.of(queue), dict(self.read(queue))
            for offset, sent in list(known.items()):
                if found.get(offset) == sent.body:
                    continue
                expired = sent.physical_offset < self.store.min_physical_offset
                if not (expired or sent.damaged or sent.hidden) and must_survive(sent):
                    raise self.broken(f"lost: {sent} of {queue}; read: {_short(found)}")
                if not (sent.hidden or expired):  # a power cut may bring back a file that was just deleted
                    del known[offset]
            # Deletions that were never safe: what came back is there again, the rest may come back later.
            limbo = self.model.limbo.get(queue, {})
            for sent in list(limbo.values()):
                if sent.queue_offset not in known and found.get(sent.queue_offset) == sent.body:
                    known[sent.queue_offset] = limbo.pop(sent.body)
        self.check_reads()

    def check_reads(self) -> None:
        """What is read now is what was put, each once; and nothing is gone that is young."""
        if self.store.min_physical_offset > self.kept_from:
            raise self.broken(f"the log begins at {self.store.min_physical_offset}, young is all from {self.kept_from}")
        if self.store.dispatch.error:
            return
        for queue in [(topic, queue_id) for topic in TOPICS for queue_id in range(2)]:
            known = self.model.queues.get(queue, {})
            for offset, body in self.read(queue):
                sent = known.get(offset)
                if sent is None or sent.body != body:
                    origin = "of a deleted topic" if body in self.model.dead else "that does not belong there"
                    raise self.broken(f"{queue} at {offset} gives {body[:8]!r} {origin}, not {sent}")

    def read(self, queue: Queue) -> list[tuple[int, bytes]]:
        """(queue offset, body) of all that a consumer gets, first to last, without records that have flipped bits."""
        found: list[tuple[int, bytes]] = []
        offset = self.store.min_offset(*queue)
        count = 1 if self.damaged else 32
        while True:
            answer = self.store.get(*queue, offset, count, 1 << 20)
            if answer.status is GetStatus.FOUND:
                found += self.sound_messages(queue, b"".join(answer.slices))
            elif offset >= answer.max_offset:
                return found
            if answer.next_offset <= offset:
                raise self.broken(f"a reader of {queue} stands at {offset} for ever: {answer.status}")
            offset = answer.next_offset

    def sound_messages(self, queue: Queue, records: bytes) -> list[tuple[int, bytes]]:
        physical_offset = int.from_bytes(records[28:36], "big")
        if physical_offset in self.damaged:
            return []
        messages = decode_records(records)
        for message in messages:
            if (message.topic, message.queue_id) != queue:
                raise self.broken(f"{queue} gives a message of {message.topic}, {message.queue_id}")
        return [(message.queue_offset, message.body) for message in messages]


def _short(found: dict[int, bytes]) -> dict[int, bytes]:
    return {offset: body[:8] for offset, body in found.items()}


_STEPS: list[Callable[[History], None]] = [
    History.put, History.put_batch, History.put_run, History.delete_topic, History.workers_run, History.time_passes,
    History.clock_steps, History.disk_gets_full, History.disk_has_room, History.days_pass, History.stop_and_start,
    History.kill, History.power_cut, History.clock_jumps_by_days, History.start_on_full_disk,
]  # fmt: skip
_WEIGHTS = [20, 8, 12, 6, 10, 12, 5, 3, 4, 1, 3, 6, 4, 1, 2]
