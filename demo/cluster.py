"""A cluster in a process of its own, which ends with the demo, also when the demo is killed.

Owns        the child process: name server and broker on free loopback ports, files under the demo's folder.
Must not know   flights, Spark.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

READY = "namesrv="


class ClusterProcess:
    """`with ClusterProcess(folder) as cluster:` cluster.namesrv is "127.0.0.1:port"; the log is folder/cluster.log."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "cluster"
        self._log = folder / "cluster.log"
        self.namesrv = ""

    def __enter__(self) -> ClusterProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.cluster", str(self.store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line.startswith(READY):
            self._process.wait(10)
            raise SystemExit(f"the cluster did not start; {self._log} says:\n{self._log.read_text()}")
        self.namesrv = line.removeprefix(READY)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def _serve(root: Path) -> None:
    """Serve until the demo closes our standard input, on purpose or by dying."""
    import asyncio

    import uvloop

    from rocketlake.standalone import Standalone

    async def serve() -> None:
        standalone = Standalone(root)
        await standalone.start()
        try:
            print(f"{READY}{standalone.namesrv_address}", flush=True)
            await asyncio.to_thread(sys.stdin.read)
        finally:
            await standalone.stop()

    # Ctrl-C reaches every process of the terminal; the demo must stop its clients first and then us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(serve())


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
