"""`python -m bench.encrypted`: Java's clients, plain and encrypted, on Apache 5.5.0 and on ours by turns.

Owns        the certificates of both sides, which clients encrypt, what is measured of the broker.
Must not know   how a side encrypts.

All servers take both kinds of connections, with one elliptic key; the clients of a run encrypt, or do not. CPU of the
broker a message is the first figure. Writes bench/results/<date>-encrypted.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.__main__ import machine, result_path
from bench.brokers import Apache, RocketLake, Side
from bench.java import BenchmarkProducer, Drain
from bench.plan import Values
from bench.program import Program
from bench.window import Window, wait_for_sends, wait_until
from interop.apache import ApacheCluster
from tests.tls_files import Authority

FIGURES = ("messages_per_second", "broker_cpu_us")
LOADS = ("producer-64", "live-16")


class EncryptingApache(Apache):
    """5.5.0, permissive, with the certificates of a file, and with the OpenSSL of its distribution."""

    peer = "server550_tls"

    def __init__(self, root: Path, file: str) -> None:
        properties = {"tls.server.mode": "permissive", "tls.config.file": file}
        self._cluster = ApacheCluster(root, heap="1g", peer=self.peer, properties=properties)
        self.namesrv, self.broker = self._cluster.namesrv, self._cluster.broker
        self.store = self._cluster.store


class EncryptingRocketLake(RocketLake):
    """Ours, the same."""

    def __init__(self, root: Path, file: str) -> None:
        super().__init__(root, {"tlsConfigFile": file})
        self._file = file

    def _launch(self, *arguments: str) -> None:
        if arguments[0] == "namesrv":
            conf = self.root / "namesrv.conf"
            conf.write_text(f"tlsConfigFile={self._file}\nkvConfigPath={self.root / 'kvConfig.json'}\n")
            arguments = (*arguments, "-c", str(conf))
        super()._launch(*arguments)


SIDES: tuple[type[EncryptingApache] | type[EncryptingRocketLake], ...] = (EncryptingApache, EncryptingRocketLake)


def measured(side: Side, warm: float, seconds: float, clients: Sequence[Program]) -> Values:
    wait_for_sends(side, 100)
    time.sleep(warm)
    window = Window(side, *clients)
    time.sleep(seconds)
    return window.close()


def run(
    kind: type[EncryptingApache] | type[EncryptingRocketLake],
    load: str,
    options: argparse.Namespace,
    root: Path,
    *,
    file: str,
    is_encrypted: bool,
) -> Values:
    """Fresh servers, one load."""
    java = ("-Dtls.enable=true",) if is_encrypted else ()
    with kind(root, file) as side:
        if load == "producer-64":
            with BenchmarkProducer(side.namesrv, threads=64, body_bytes=1024, java=java) as producer:
                return measured(side, options.warm, options.seconds, [producer])
        with Drain(side.namesrv, java=java) as drain:
            wait_until(lambda: drain.latest().counters["received"] > 0, "the consumer's first message", 60)
            with BenchmarkProducer(side.namesrv, threads=16, body_bytes=1024, java=java) as producer:
                return measured(side, options.warm, options.seconds, [producer, drain])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.encrypted")
    parser.add_argument("--only", choices=LOADS, help="one load")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-encrypted-"))
    file = Authority(folder / "authority").file("tls.properties", {"tls.test.mode.enable": "false"})
    result: dict[str, object] = {"machine": machine(), "options": vars(options)}
    runs: dict[str, list[Values]] = {}
    try:
        for load in [options.only] if options.only else LOADS:
            for number in range(options.rounds):
                for kind in SIDES if number % 2 == 0 else reversed(SIDES):
                    for is_encrypted in (False, True):
                        name = f"{load} {kind.name} {'encrypted' if is_encrypted else 'plain'}"
                        place = folder / f"run-{len(runs)}-{number}"
                        values = run(kind, load, options, place, file=file, is_encrypted=is_encrypted)
                        shutil.rmtree(place, ignore_errors=True)
                        runs.setdefault(name, []).append(values)
                        print(f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in values.items()), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {
        name: {key: statistics.median(values[key] for values in each) for key in FIGURES} for name, each in runs.items()
    }
    for name, values in medians.items():
        print(f"{name:34}" + ", ".join(f"{key} {value:g}" for key, value in values.items()))
    target = result_path("encrypted")
    target.write_text(json.dumps(result | {"runs": runs, "medians": medians}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
