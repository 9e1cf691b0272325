"""Real members of etcd, killed and stopped under swaps: `make etcd-kills KILLS=200`.

Three registers swap one key all the time. After each fault the gap until the next swap that is made is measured; at the
end the whole history must be that of one register.
"""

from __future__ import annotations

import asyncio
import logging
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from interop.etcd import EtcdPeers
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import LinkError
from rocketlake.base.service import Service
from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.controller.etcd.settings import EtcdSettings
from rocketlake.net.network import TcpNetwork
from tests.histories.swap_history import FIRST, Swapping, check
from tests.histories.swappers import Swapper

KEY = "groups/broker-a"
FAULTS = ("kill the leader", "stop the leader", "kill a follower", "stop a follower", "kill all")


class Kills(Service):
    """One cluster, three callers, faults one after the other."""

    def __init__(self, peers: EtcdPeers, seed: int) -> None:
        super().__init__("kills")
        self.peers = peers
        self.random = random.Random(seed)
        self.calls: list[Swapping] = []
        self.gaps: dict[str, list[float]] = {fault: [] for fault in FAULTS}
        self.made: list[float] = []
        """When each swap was told to be made."""

    async def run(self, count: int) -> None:
        """Raises swap_history.Wrong."""
        settings = EtcdSettings(self.peers.addresses, unsafe_versions=self.peers.is_unsafe)
        clock = SystemClock()
        registers = [EtcdRegister(settings, TcpNetwork()) for _ in range(3)]
        for number, register in enumerate(registers):
            await register.start()
            swapper = Swapper(f"caller{number}", register, KEY, clock, self.random, self.calls)
            self.keep(swapper.name, lambda swapper=swapper: self._swap(swapper))
        for number in range(count):
            fault = FAULTS[number % 4] if number % 20 else FAULTS[4]
            gap = await self._fault(fault)
            self.gaps[fault].append(gap)
            print(f"{number + 1}/{count} {fault}: {gap * 1000:.0f} ms; {len(self.made)} swaps made", flush=True)
        await self.stop()
        last = await self._last(registers[0])
        for register in registers:
            await register.stop()
        length = check(self.calls, last)
        unknown = sum(each.made is None for each in self.calls)
        print(f"the history is right: {len(self.calls)} swaps, {length} made, {unknown} of unknown outcome")

    async def _swap(self, swapper: Swapper) -> None:
        if await swapper.swap():
            self.made.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.random.uniform(0, 0.02))

    async def _fault(self, fault: str) -> float:
        """The longest time without a swap, from the fault on; members that all are killed come back first."""
        loop = asyncio.get_running_loop()
        leader = await self._in_a_thread(self.peers.leader)
        assert isinstance(leader, int)
        member = leader if "leader" in fault else (leader + self.random.choice((1, 2))) % 3
        start = loop.time()
        if fault == "kill all":
            for each in range(3):
                self.peers.kill(each)
            await self._in_a_thread(self.peers.start)
            start = loop.time()
        elif "kill" in fault:
            self.peers.kill(member)
        else:
            self.peers.pause(member)
        await asyncio.sleep(0.2)  # answers that were under way are there
        looked = loop.time()
        while self.made[-1] <= looked:
            if loop.time() - start > 30:
                raise AssertionError(f"no swap for 30 s after: {fault}")
            await asyncio.sleep(0.002)
        times = [start, *(made for made in self.made if made > start)]
        gap = max(later - earlier for earlier, later in pairwise(times))
        await asyncio.sleep(self.random.choice((0.1, 0.6, 1.5)))
        await self._in_a_thread(self.peers.mend)
        await asyncio.sleep(0.2)
        return gap

    async def _last(self, register: EtcdRegister) -> bytes:
        await asyncio.sleep(10)  # a request that a member holds is given up by then
        for _ in range(20):
            try:
                return (await register.read(KEY)).get(KEY, (FIRST, 0))[0]
            except LinkError:
                continue
        raise AssertionError("etcd does not come back")

    async def _in_a_thread(self, call: Callable[[], object]) -> object:
        return await asyncio.get_running_loop().run_in_executor(None, call)


def main() -> None:
    """As many faults as the argument says."""
    logging.getLogger("rocketlake").setLevel(logging.CRITICAL + 1)
    with tempfile.TemporaryDirectory() as folder, EtcdPeers(Path(folder)) as peers:
        kills = Kills(peers, seed=1)
        asyncio.run(kills.run(int(sys.argv[1])))
    for fault, gaps in kills.gaps.items():
        if gaps:
            middle, worst = statistics.median(gaps) * 1000, max(gaps) * 1000
            print(f"{fault}: {len(gaps)} times, gap p50 {middle:.0f} ms, longest {worst:.0f} ms")


if __name__ == "__main__":
    main()
