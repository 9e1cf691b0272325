"""The HA stream of controller mode with Apache's brokers: our slave of its master, its slave of ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from interop.apache import free_ports
from interop.apache_group import CLUSTER, ApacheBroker, ApacheGroup
from rocketlake import Message, Producer
from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.worker import ThreadWorker
from rocketlake.client.errors import NoRoute
from rocketlake.net.client import NetClient
from rocketlake.net.network import TcpNetwork
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import RequestHeader
from rocketlake.protocol.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, RegisterReplicaHeader
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.headers.replicas import ExchangeHaHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.epochs.epoch_file import decode, encode
from tests.epoch_group import Replica
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

FILE_BYTES = 65536
OURS = "group-b"


@pytest.fixture(scope="module", params=releases("server550"))
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheGroup]:
    """Apache's name server with its controller; brokers are added by the tests."""
    jars_of(request.param)
    group = ApacheGroup(tmp_path_factory.mktemp("group"), peer=request.param)
    try:
        group.start()
        yield group
    finally:
        group.stop()


@pytest.fixture
async def replicas(tmp_path: Path) -> AsyncIterator[Callable[[int], Replica]]:
    made: list[Replica] = []

    def make(broker_id: int) -> Replica:
        replica = Replica(
            SystemClock(),
            TcpNetwork(),
            broker_id,
            host="127.0.0.1",
            port=free_ports(1)[0],
            root=tmp_path / f"ours{broker_id}",
            files=PosixFiles(),
            workers=ThreadWorker,
            file_bytes=FILE_BYTES,
        )
        made.append(replica)
        return replica

    yield make
    for replica in made:
        await replica.stop()


async def until(true: Callable[[], object], what: str, seconds: float = 40) -> None:
    """Return when `true()` is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        await asyncio.sleep(0.05)


def log_of(broker: ApacheBroker) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((broker.store / "commitlog").glob("0*")))


def is_same(replica: Replica, broker: ApacheBroker) -> bool:
    ours = replica.log.rstrip(b"\0")
    return bool(ours) and log_of(broker).rstrip(b"\0") == ours


async def produce(namesrv: str, count: int) -> None:
    """Send messages as soon as the name server knows the master."""
    end = time.monotonic() + 40
    async with Producer("ours", namesrv=namesrv) as producer:
        while count and time.monotonic() < end:
            try:
                await producer.send(Message("Epochs", b"%d" % count * 30))
                count -= 1
            except NoRoute:
                await asyncio.sleep(0.2)
    assert not count, "the master is not registered"


async def test_our_slave_has_the_log_and_the_epochs_of_apaches_master(
    group: ApacheGroup, replicas: Callable[[int], Replica]
) -> None:
    master = group.broker(mappedFileSizeCommitLog=FILE_BYTES)
    await asyncio.to_thread(master.start)
    await until(lambda: master.epochs, "no epoch of the master")
    slave = replicas(7)
    await slave.start()
    await slave.follow(f"127.0.0.1:{master.ha_port}")
    await produce(group.namesrv, 300)  # over the end of a file
    await until(lambda: is_same(slave, master), "the slave does not catch up")
    assert encode(slave.epochs.history) == master.epochs.encode()
    assert len(slave.store.log.list.files) > 1
    await until(lambda: slave.confirmed == slave.end, "the master confirms what it has")
    master.kill()


class Controlled:
    """A group at Apache's controller whose master is ours: registered and elected by hand."""

    def __init__(self, controller: str, address: str) -> None:
        self.controller, self.address = controller, address
        self.client = NetClient(clock=SystemClock(), network=TcpNetwork())

    async def ask(self, code: RequestCode, header: RequestHeader) -> Command:
        answer = await self.client.invoke(self.controller, Command.request(code, header), 10_000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def register(self) -> None:
        names = {"cluster_name": CLUSTER, "broker_name": OURS}
        check = f"{self.address};1"
        await self.ask(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            ApplyBrokerIdHeader(**names, applied_broker_id=1, register_check_code=check),  # type: ignore[arg-type]
        )
        await self.ask(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            RegisterReplicaHeader(**names, broker_id=1, broker_address=self.address),  # type: ignore[arg-type]
        )
        await self.beat()
        await self.ask(RequestCode.CONTROLLER_ELECT_MASTER, ElectMasterHeader(**names, broker_id=1))  # type: ignore[arg-type]

    async def beat(self) -> None:
        header = BrokerHeartbeatHeader(
            cluster_name=CLUSTER,
            broker_addr=self.address,
            broker_name=OURS,
            broker_id=1,
            epoch=1,
            max_offset=0,
            confirm_offset=0,
            heartbeat_timeout_mills=120_000,
        )
        await self.ask(RequestCode.BROKER_HEARTBEAT, header)

    async def tell_slave(self, slave: ApacheBroker, ha_address: str) -> None:
        header = ExchangeHaHeader(master_ha_address=ha_address, master_flush_offset=0, master_address=self.address)
        command = Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, header)
        answer = await self.client.invoke(f"127.0.0.1:{slave.port}", command, 10_000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_apaches_slave_has_the_log_and_the_epochs_of_our_master(
    group: ApacheGroup, replicas: Callable[[int], Replica]
) -> None:
    master = replicas(1)
    await master.start()
    await master.lead(1)
    controlled = Controlled(group.controller, "127.0.0.1:9")
    await controlled.register()
    slave = group.broker(mappedFileSizeCommitLog=FILE_BYTES, brokerName=OURS)
    await asyncio.to_thread(slave.start)
    master.put(*[b"%d" % number * 40 for number in range(50)])
    ha_address = f"127.0.0.1:{master.leader.port}"

    async def told() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            for _ in range(100):
                await controlled.tell_slave(slave, ha_address)
                await asyncio.sleep(1)

    telling = asyncio.create_task(told())  # it takes the address only once it is a slave
    await until(lambda: is_same(master, slave), "Apache's slave does not follow")
    telling.cancel()
    second = master.end
    await master.lead(4)
    master.put(*[b"%d" % number * 40 for number in range(400)])
    await until(lambda: is_same(master, slave), "Apache's slave does not go on")
    await until(lambda: master.reports.ends.get("2") == master.end == master.confirmed, "it does not report")
    assert decode(slave.epochs.encode()).epochs == ((1, 0), (4, second))
    await controlled.client.close()
