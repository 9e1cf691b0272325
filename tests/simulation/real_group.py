"""A group of real brokers and real controllers in one process, in virtual time, under faults: one run for each seed.

Everything is what runs in production but for the seams: network, disks, workers and time are simulated, and the
register of the controllers is one in memory. `python -m tests.simulation.real_group SEED` tells what happened,
`make replica-groups SEEDS=1000` plays many.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from struct import Struct

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault as DiskFault
from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.membership.standing import State
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_layout import MAGIC_V1, MAGIC_V2
from rocketlake.controller.controller import Controller
from rocketlake.controller.group import EMPTY, Group, from_json, group_key
from rocketlake.controller.registers.memory import Fault, MemoryRegister, SharedValues
from rocketlake.controller.registers.register import Swap, Swapped
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.disk_worker import DiskWorker
from rocketlake.testing.replicas.promises import Broken, Promises
from rocketlake.testing.virtual_time import run_virtual
from tests.requests import send_header

NAME, TOPIC, QUEUES, PORT = "b", "TBW102", 2, 9876
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
STORE = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_least_pages=0)
FAULTS_UNTIL, SENDS_UNTIL, END = 10.0, 18.0, 60.0
_HEAD = Struct(">ii")  # size, magic
_WRITES = ("pwrite", "sync", "write_bytes", "rename", "truncate", "sync_dir")


class Observed(SharedValues):
    """The register, which has each change judged."""

    def __init__(self, group: RealGroup) -> None:
        super().__init__()
        self._group = group

    def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        outcome = super().swap(key, revision, value, also)
        if isinstance(outcome, Swapped) and key == group_key(NAME):
            self._group.recorded(from_json(value))
        return outcome


class DyingPlan(FaultPlan):
    """The faults of one disk; one of them is the death of the process in the middle of a write."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.writes_left: int | None = None

    def take(self, call: str, path: Path) -> DiskFault | None:
        if self.writes_left is not None and call in _WRITES:
            self.writes_left -= 1
            if self.writes_left <= 0:
                self.writes_left = None
                draw = self.node.group.draw
                self.node.group.note(f"{self.node.host} dies in {call} of {path}")
                if call == "pwrite" and draw.random() < 0.5:  # the write is torn, the process does not see the end
                    return DiskFault(call, keep_bytes=draw.randint(1, 200))
                self.node.die()
                return DiskFault(call)
        found = super().take(call, path)
        self.calls.clear()
        return found


class Node:
    """A machine with a broker."""

    def __init__(self, group: RealGroup, number: int) -> None:
        self.group = group
        self.host = f"10.0.0.{11 + number}"
        self.disk = MemoryFiles(clock=group.clock)
        self.boot(0)
        self.broker: Broker | None = None
        self.network: MemoryHost | None = None
        self.plan = DyingPlan(self)
        self.slow_ms = 0.0
        self.read = [0] * QUEUES

    def boot(self, number: int) -> None:
        self.disk.make_dirs(BOOT_ID.parent)
        self.disk.write_bytes(BOOT_ID, f"boot-{self.host}-{number}\n".encode())

    async def start(self) -> None:
        """Start; while its disk refuses, again and again."""
        group = self.group
        while not group.is_over:
            self.plan = DyingPlan(self)
            self.network = group.net.host(self.host)
            self.read = [0] * QUEUES
            config = BrokerConfig(
                broker_name=NAME, cluster_name="C", listen_host=self.host, fast_listen_port=0, store_root=Path("/s"),
                controller_mode=True, controller_addresses=(f"c1:{PORT}", f"c2:{PORT}"), slave_timeout_ms=2000,
                default_topic_queues=QUEUES,
            )  # fmt: skip
            self.broker = Broker(
                config, STORE, files=FaultyFiles(self.disk, self.plan), clock=group.clock, network=self.network,
                workers=lambda name: DiskWorker(name, group.clock, self._disk_seconds),
            )  # fmt: skip
            try:
                await self.broker.start()
            except (RocketLakeError, OSError) as error:
                group.note(f"{self.host} cannot start: {error}")
                self.die()
                await group.clock.sleep(0.5)
            else:
                group.note(f"{self.host} is up")
                return

    def _disk_seconds(self) -> float:
        return self.group.draw.uniform(0, 0.002) + self.group.draw.uniform(0, self.slow_ms) / 1000

    def die(self, *, power: bool = False) -> None:
        """kill -9; with `power` what was not synced is gone, and nobody is told."""
        broker, self.broker = self.broker, None
        if broker is None or self.network is None:
            return
        self.disk = self.disk.power_cut(self.group.draw) if power else self.disk.killed()
        self.network.crash(silent=power)
        for service in broker.services():
            service.is_running = False
            for task in list(service._tasks):
                task.cancel()


class RealGroup:
    """Three brokers, two controllers, clients."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.draw = Random(seed)
        self.clock = clock
        self.net = MemoryNet(seed, clock=clock, delay_ms=(0.1, 1.0))
        self.events: list[str] = []
        self.problem = ""
        self.is_over = False
        self.promises = Promises()
        self.state: Group = EMPTY
        self.shared = Observed(self)
        self.registers = {name: MemoryRegister(self.shared, clock) for name in ("c1", "c2")}
        self.controllers: dict[str, tuple[Controller, Server, MemoryHost]] = {}
        self.nodes = [Node(self, number) for number in range(3)]
        self.boots = 0
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.seen: dict[tuple[int, int], bytes] = {}
        self.acked_at = 0.0

    def note(self, text: str) -> None:
        self.events.append(f"{self.clock.monotonic():7.3f} {text}")

    def wrong(self, text: str) -> None:
        """The first broken promise counts."""
        self.note(f"WRONG: {text}")
        self.problem = self.problem or text

    def recorded(self, after: Group) -> None:
        """A change of the register."""
        before, self.state = self.state, after
        self.note(f"epoch {after.master_epoch}: master {after.master}, set {sorted(after.in_sync)}")
        try:
            self.promises.recorded(before, after)
        except Broken as error:
            self.wrong(str(error))

    # -- controllers ---------------------------------------------------------------------------------------------------

    async def start_controller(self, name: str) -> None:
        host = self.net.host(name)
        controller = Controller(
            self.registers[name], address=lambda: f"{name}:{PORT}", clock=self.clock,
            gate=AccessGate(lambda: AdminAccess.NONE), sign=lambda _command: None,
            network=host, name=name,
        )  # fmt: skip

        def heartbeat(request: Request) -> Reply:
            controller.heartbeat(request, request.header(BrokerHeartbeatHeader))
            return Reply()

        rows = [*controller.rows(), Row(RequestCode.BROKER_HEARTBEAT, heartbeat, ANYBODY)]
        server = Server(Dispatcher(rows), host=name, port=PORT, clock=self.clock, network=host)
        server.on_link_lost.append(controller.link_lost)
        await controller.start()
        await server.start()
        self.controllers[name] = controller, server, host

    async def stop_controller(self, name: str) -> None:
        """As kill -9: nobody hears a word of it."""
        controller, server, host = self.controllers.pop(name)
        host.crash()
        await server.stop(0)
        await controller.stop()

    # -- clients -------------------------------------------------------------------------------------------------------

    async def send(self, sender: int) -> None:
        """One message after the other, each under a body of its own, to whatever broker takes it."""
        client = NetClient(clock=self.clock, network=self.net.host(f"10.0.9.{sender}"))
        number = at = 0
        while self.clock.monotonic() < SENDS_UNTIL and not self.problem:
            number += 1
            body = f"{sender}/{number}".encode().ljust(self.draw.choice((20, 200, 3000)), b".")
            header = send_header(topic=TOPIC, queue_id=number % QUEUES)
            try:
                address = f"{self.nodes[at % 3].host}:10911"
                answer = await client.invoke(address, Command.request(RequestCode.SEND_MESSAGE_V2, header, body), 700)
            except RocketLakeError:
                at += 1
                await self.clock.sleep(0.001)  # all three may refuse at once: time would stand still
                continue
            if answer.code == 0:
                reply = answer.header(SendReplyHeader)
                self.acked[body], self.acked_at = (reply.queue_id, reply.queue_offset), self.clock.monotonic()
            else:
                at += 1
            await self.clock.sleep(self.draw.uniform(0.005, 0.06))
        await client.close()

    def look(self) -> None:
        """What readers find in a place never changes, on whatever broker they look."""
        for node in self.nodes:
            if node.broker is None or not node.broker.is_running:
                continue
            for queue in range(QUEUES):
                found = node.broker.store.get(TOPIC, queue, node.read[queue], 64, 1 << 20)
                for message in decode_records(b"".join(found.slices)):
                    place, body = (queue, message.queue_offset), bytes(message.body)
                    if self.seen.setdefault(place, body) != body:
                        self.wrong(f"{node.host} shows {body[:20]!r} at {place}, where {self.seen[place][:20]!r} was")
                    node.read[queue] = message.queue_offset + 1

    async def keep_looking(self) -> None:
        while not self.is_over:
            self.look()
            await self.clock.sleep(0.1)

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.net.start()
        for name in self.registers:
            await self.start_controller(name)
        await asyncio.gather(*(node.start() for node in self.nodes))
        await self.settled()
        work = [asyncio.ensure_future(self.send(sender)) for sender in range(2)]
        looking = asyncio.ensure_future(self.keep_looking())
        await Faults(self).happen()
        await asyncio.gather(*work)
        await self.settled()
        await self.clock.sleep(1.0)
        self.look()
        self.is_over = True
        await looking
        self.judge()

    async def settled(self) -> None:
        """All three are in step with one master."""
        while self.clock.monotonic() < END and not self.problem:
            masters = [node for node in self.nodes if node.broker is not None and self.leads(node.broker)]
            if len(self.state.in_sync) == 3 and len(masters) == 1:
                return
            await self.clock.sleep(0.1)
        self.wrong(f"all has healed, and the group does not come back: {self.state}")

    def leads(self, broker: Broker) -> bool:
        return broker.membership is not None and broker.membership.member.standing.state is State.MASTER

    def judge(self) -> None:
        """Each acknowledged message is in its place; the logs agree."""
        lost = [body[:20] for body, place in self.acked.items() if self.seen.get(place) != body]
        if lost:
            self.wrong(f"{len(lost)} of {len(self.acked)} acknowledged messages are lost: {lost[:3]}")
        if self.acked_at < SENDS_UNTIL - 3 and not self.problem:
            self.wrong(f"all has healed, and nothing is acknowledged since {self.acked_at:.1f}")
        logs = [records(node.broker) for node in self.nodes if node.broker is not None]
        first = max(min(log) for log in logs)  # a disk that was full costs the oldest file
        if len({tuple((place, record) for place, record in log.items() if place >= first) for log in logs}) > 1:
            self.wrong("the logs differ")


def records(broker: Broker) -> dict[int, bytes]:
    """The records of its log, by their place. Behind the last one of a file there may be anything."""
    found: dict[int, bytes] = {}
    for start, view in broker.store.log_views(PhysicalOffset(0)):
        at = 0
        while at + 8 <= len(view):
            size, magic = _HEAD.unpack_from(view, at)
            if magic not in (MAGIC_V1, MAGIC_V2):
                break
            found[start + at] = bytes(view[at : at + size])
            at += size
    return found


class Faults:
    """What goes wrong in one run, and its healing."""

    def __init__(self, group: RealGroup) -> None:
        self._group = group
        self._draw = Random(f"faults {group.draw.random()}")
        self._kinds = (
            self._kill, self._kill, self._die_in_write, self._die_in_write, self._die_in_write, self._power,
            self._cut_one_way, self._cut_one_way, self._cut_off, self._cut_from_slaves, self._slow_net, self._cut_links,
            self._register, self._register, self._controller, self._full_disk, self._slow_disk, self._hand_over,
        )  # fmt: skip

    async def happen(self) -> None:
        """They may overlap. Then all heals."""
        group = self._group
        begin = group.clock.monotonic()
        moments = sorted(self._draw.uniform(0.5, FAULTS_UNTIL) for _ in range(self._draw.randint(1, 7)))
        under_way = []
        for moment in moments:
            await group.clock.sleep(begin + moment - group.clock.monotonic())
            kind = self._draw.choice(self._kinds)
            group.note(f"fault: {kind.__name__}")
            under_way.append(asyncio.ensure_future(kind()))
        await asyncio.gather(*under_way)
        group.net.heal()
        group.net.cut_chance, group.net.delay_ms = 0.0, (0.1, 1.0)
        for register in group.registers.values():
            register.faults.clear()
            register.is_cut, register.delay_seconds = False, 0.0
        for node in group.nodes:
            node.plan.writes_left = None
            node.slow_ms, node.disk.capacity = 0.0, 1 << 40
            if node.broker is None:
                await node.start()
        group.note("healed")

    async def _while(self) -> None:
        await self._group.clock.sleep(self._draw.choice((0.05, 0.5, 1.5, 4.0)) * self._draw.uniform(0.5, 1.5))

    def _node(self) -> Node:
        """The master in every second case."""
        masters = [node for node in self._group.nodes if node.broker is not None and self._group.leads(node.broker)]
        return self._draw.choice(masters if masters and self._draw.random() < 0.5 else self._group.nodes)

    async def _kill(self) -> None:
        node = self._node()
        if node.broker is not None and node.broker.is_running:
            node.die()
            await self._while()
            await node.start()

    async def _die_in_write(self) -> None:
        node = self._node()
        if node.broker is not None and node.broker.is_running:
            node.plan.writes_left = self._draw.randint(1, 60)
            await self._while()
            node.plan.writes_left = None
            node.die()
            await self._while()
            await node.start()

    async def _power(self) -> None:
        """One machine, while the others hold all: waiting for the disk alone would survive more."""
        group, node = self._group, self._node()
        if len(group.state.in_sync) == 3 and node.broker is not None and node.broker.is_running:
            node.die(power=True)
            await self._while()
            group.boots += 1
            node.boot(group.boots)
            await node.start()

    async def _hand_over(self) -> None:
        node = self._node()
        if node.broker is not None and node.broker.is_running:
            broker = node.broker
            await broker.stop()
            if node.broker is broker:
                node.die()
                await node.start()

    async def _cut(self, pairs: list[tuple[str, str]]) -> None:
        for source, target in pairs:
            self._group.net.cut_way(source, target)
        await self._while()
        self._group.net.heal()

    async def _cut_one_way(self) -> None:
        one, other = self._draw.sample([*(node.host for node in self._group.nodes), "c1", "c2"], 2)
        await self._cut([(one, other)])

    async def _cut_off(self) -> None:
        one, others = self._node().host, [*(node.host for node in self._group.nodes), "c1", "c2"]
        await self._cut([pair for other in others for pair in ((one, other), (other, one))])

    async def _cut_from_slaves(self) -> None:
        """In both directions, or in one."""
        one = self._node().host
        ways = self._draw.choice(((True, True), (True, False), (False, True)))
        others = [node.host for node in self._group.nodes]
        pairs = [pair for other in others for pair in ((one, other), (other, one))]
        await self._cut([pair for pair in pairs if ways[0 if pair[0] == one else 1]])

    async def _slow_net(self) -> None:
        self._group.net.delay_ms = (0.1, self._draw.choice((50.0, 300.0)))
        await self._while()
        self._group.net.delay_ms = (0.1, 1.0)

    async def _cut_links(self) -> None:
        self._group.net.cut_chance = self._draw.choice((0.01, 0.1))
        await self._while()
        self._group.net.cut_chance = 0.0

    async def _register(self) -> None:
        """Some of the next swaps end in each way there is, or a controller does not reach it, or late."""
        register = self._group.registers[self._draw.choice(("c1", "c2"))]
        if self._draw.random() < 0.5:
            for each in self._group.registers.values():
                each.faults.extend(self._draw.choices([None, *Fault], k=3))
        else:
            register.is_cut, register.delay_seconds = self._draw.random() < 0.5, self._draw.uniform(0, 0.5)
        await self._while()
        register.is_cut, register.delay_seconds = False, 0.0
        while self._group.shared.late:
            self._group.shared.deliver_late()

    async def _controller(self) -> None:
        name = self._draw.choice(("c1", "c2"))
        if name in self._group.controllers:
            await self._group.stop_controller(name)
            await self._while()
            await self._group.start_controller(name)

    async def _full_disk(self) -> None:
        node = self._node()
        node.disk.capacity = node.disk.used
        await self._while()
        node.disk.capacity = 1 << 40

    async def _slow_disk(self) -> None:
        node = self._node()
        node.slow_ms = self._draw.choice((50.0, 400.0))
        if self._draw.random() < 0.3:
            node.plan.add(DiskFault("sync", "commitlog", times=1, error=errno.EIO))
        await self._while()
        node.slow_ms = 0.0
        node.plan.clear()
        await self._group.clock.sleep(1)  # a sync that is under way may fail until then
        if node.broker is not None and node.broker.is_running and not node.broker.store.writable:
            node.die()
            await node.start()


def run_seed(seed: int) -> RealGroup:
    """One run, from the seed alone."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # faults are wanted here
    clock = ManualClock()
    group = RealGroup(seed, clock)
    try:
        run_virtual(group.run(), clock)
    finally:
        logging.disable(before)
    return group


if __name__ == "__main__":
    told = run_seed(int(sys.argv[1]))
    print(*told.events, f"{len(told.acked)} acknowledged", told.problem, sep="\n")
