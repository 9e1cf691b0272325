"""A group of real processes: three brokers, two name servers with controllers, three members of etcd.

Each has an address of its own on loopback, behind doors that cut links (cut_links.py). Where a tmpfs can be mounted
each broker has a disk of its own that can be made full.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from interop.apache import free_ports, wait_for_port
from interop.etcd import EtcdPeers
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import ReplicasEntry, ReplicasTable, encode_names
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.crash.broker_process import BrokerProcess
from tests.crash.cut_links import Cuts, Door

NAME = "failover"
_DISK_BYTES = 2 << 30


async def in_a_thread(call: Callable[[], object]) -> None:
    """The loop passes on what the processes say to each other: it may not wait."""
    await asyncio.get_running_loop().run_in_executor(None, call)


class Disk:
    """A tmpfs that ends where its last file ends while it is full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.is_own = not _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "rocketlake-test", str(folder))

    def fill(self) -> None:
        """Not one page is left."""
        for _ in range(1000):
            found = os.statvfs(self.folder)
            if not _mount("-o", f"remount,size={(found.f_blocks - found.f_bfree) * found.f_frsize}", str(self.folder)):
                return
        raise AssertionError("the broker writes faster than its disk can be made smaller")

    def free(self) -> None:
        _mount("-o", f"remount,size={_DISK_BYTES}", str(self.folder))

    def end(self) -> None:
        if self.is_own:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


def _mount(*words: str) -> int:
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode


class Controller:
    """A name server with a controller whose register is etcd."""

    def __init__(self, root: Path, number: int, etcd: str, *, is_unsafe: bool) -> None:
        (self.port,) = free_ports(1)
        self.machine = f"127.0.2.{number + 1}"
        self.address = f"{self.machine}:{self.port}"
        self._root = root / f"namesrv{number}"
        self._root.mkdir(parents=True)
        self._conf = self._root / "namesrv.conf"
        self._conf.write_text(
            f"listenPort={self.port}\nenableControllerInNamesrv=true\nkvConfigPath={self._root}/kv.json\n"
            f"controllerAddress={self.address}\ncontrollerEtcdAddresses={etcd}\ncontrollerEtcdUnsafeVersions={str(is_unsafe).lower()}\n"
        )
        self.is_up = False

    def start(self) -> None:
        with (self._root / "namesrv.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", "run", "namesrv", "-c", str(self._conf)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.is_up = True
        wait_for_port(self.port, self.process)

    def kill(self) -> None:
        self.is_up = False
        self.process.kill()
        self.process.wait()


class GroupProcesses:
    """All of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.etcd = EtcdPeers(root / "etcd")
        self.cuts = Cuts()
        members = {f"127.0.3.{number + 1}": port for number, port in enumerate(self.etcd.ports)}
        etcd = ";".join(f"http://{machine}:{port}" for machine, port in members.items())
        is_unsafe = self.etcd.is_unsafe
        self.controllers = [Controller(root, number, etcd, is_unsafe=is_unsafe) for number in range(2)]
        self.disks = [Disk(root / f"disk{number}") for number in range(3)]
        self.brokers = [self._broker(number) for number in range(3)]
        self.machines = {broker.machine: broker for broker in self.brokers}
        controllers = {each.machine: lambda each=each: each.process.pid for each in self.controllers}
        pids: dict[str, Callable[[], int]] = {each.machine: lambda each=each: each.pid for each in self.brokers}
        pids |= controllers
        ports = {each.machine: (each.port, each.ha_port) for each in self.brokers}
        ports |= {each.machine: (each.port,) for each in self.controllers}
        ports |= {machine: (port,) for machine, port in members.items()}
        self.doors = {
            machine: [
                Door(
                    self.cuts,
                    machine,
                    (machine, port),
                    ("127.0.0.1", port),
                    controllers if machine in members else pids,
                )
                for port in found
            ]
            for machine, found in ports.items()
        }
        self.net = NetClient(clock=SystemClock())

    def _broker(self, number: int) -> ReplicaProcess:
        addresses = ";".join(each.address for each in self.controllers)
        return ReplicaProcess(
            self.root / f"broker{number}",
            f"127.0.1.{number + 1}",
            storePathRootDir=self.disks[number].folder / "store",
            brokerName=NAME,
            namesrvAddr=addresses,
            enableControllerMode="true",
            controllerAddr=addresses,
            fastListenPort=0,
            cleanFileForciblyEnable="false",
        )

    @property
    def has_disks(self) -> bool:
        """False: this user may not mount."""
        return all(disk.is_own for disk in self.disks)

    def disk_of(self, broker: BrokerProcess) -> Disk:
        return next(disk for disk, each in zip(self.disks, self.brokers, strict=True) if each is broker)

    def others(self, *brokers: ReplicaProcess) -> list[ReplicaProcess]:
        return [each for each in self.brokers if each not in brokers]

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all; the roles come later."""
        for doors in self.doors.values():
            for door in doors:
                await door.open()
        await in_a_thread(self.etcd.start)
        await asyncio.gather(*(in_a_thread(each.start) for each in self.controllers))
        await asyncio.gather(*(in_a_thread(each.start) for each in self.brokers))

    async def stop(self) -> None:
        """Kill all."""
        await self.net.close()
        for broker in self.brokers:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                if broker.pid:
                    broker.kill()
        for controller in self.controllers:
            if controller.is_up:
                controller.kill()
        self.etcd.__exit__(None, None, None)
        for doors in self.doors.values():
            for door in doors:
                door.close()
        for disk in self.disks:
            disk.end()

    def kill(self, broker: ReplicaProcess) -> None:
        """Its machine refuses connections from now on."""
        for door in self.doors[broker.machine]:
            door.close()
        broker.kill()

    async def begin(self, broker: ReplicaProcess) -> None:
        """Start it again."""
        for door in self.doors[broker.machine]:
            await door.open()
        await in_a_thread(broker.start)

    async def ended(self, broker: ReplicaProcess) -> None:
        """Returns when it has ended by itself."""
        await in_a_thread(lambda: broker._process.wait(60))
        for door in self.doors[broker.machine]:
            door.close()

    # -- what is so ----------------------------------------------------------------------------------------------------

    async def settled(self, seconds: float = 40) -> ReplicaProcess:
        """The master, when all three are in step."""
        asked = next(each for each in self.controllers if each.is_up)
        return self.named(await settled(self.net, f"127.0.0.1:{asked.port}", NAME, 3, seconds))

    def named(self, address: str) -> ReplicaProcess:
        return self.machines[address.rpartition(":")[0]]


class ReplicaProcess(BrokerProcess):
    """A broker on a machine of its own."""

    def __init__(self, root: Path, machine: str, **settings: object) -> None:
        self.machine = machine
        (self.ha_port,) = free_ports(1)
        super().__init__(root, brokerIP1=machine, haListenPort=self.ha_port, **settings)

    @property
    def pid(self) -> int:
        process = getattr(self, "_process", None)
        return process.pid if process else 0

    def pause(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """It hands over first."""
        self._process.terminate()


async def recorded(net: NetClient, controller: str, name: str = NAME) -> ReplicasEntry | None:
    """The group, as this controller knows it. Raises RocketLakeError."""
    command = Command.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names([name]))
    answer = await net.invoke(controller, command, 3000)
    return ReplicasTable.decode(answer.body_bytes).table.get(name)


async def settled(net: NetClient, controller: str, name: str, count: int, seconds: float = 40) -> str:
    """The address of the group's master, when so many replicas are in step."""
    deadline = asyncio.get_running_loop().time() + seconds
    group: ReplicasEntry | str | None = "the controller does not answer"
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(RocketLakeError):
            group = found = await recorded(net, controller, name)
            if found is not None and found.master_address and len(found.in_sync_replicas) == count:
                return found.master_address
        await asyncio.sleep(0.02)
    raise TimeoutError(f"not {count} replicas in step with a master: {group}")
