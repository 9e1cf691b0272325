"""`python -m bench.secured`: Java's clients, plain, signed and encrypted, on Apache 5.5.0 and on ours by turns.

Owns        the certificates and the users of both sides, which clients sign or encrypt, what is measured of the broker.
Must not know   how a side encrypts, or knows its users.

All servers take both kinds of connections, with one elliptic key; the clients of a run encrypt, or do not. The brokers
of a signed run know users and their policies (ACL 2.0); the producer is a user with one policy. CPU of the broker a
message is the first figure. Writes bench/results/<date>-secured.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import wire
from bench.__main__ import machine, result_path
from bench.brokers import Apache, RocketLake, Side
from bench.java import BatchSend, BenchmarkProducer, Drain
from bench.plan import Values
from bench.program import Program
from bench.window import Window, wait_for_sends, wait_until
from interop.apache import ApacheCluster
from rocketlake.admin.accounts import ClusterAccounts
from rocketlake.admin.cluster import Cluster
from rocketlake.auth.account_text import SUBJECT, AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketlake.auth.credentials import Credentials
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from tests.tls_files import Authority

ADMIN, SENDER = Credentials("root-user", "root-secret-1"), Credentials("sender", "sender-secret-1")
USERS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": f'{{"username":"{ADMIN.access_key}","password":"{ADMIN.secret_key}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{ADMIN.access_key}","secretKey":"{ADMIN.secret_key}"}}',
}
_PROVIDER = "org.apache.rocketmq.auth.{}.provider.{}Provider"
PROVIDERS = {
    f"{name}{kind}Provider": _PROVIDER.format(name, f"{place}{name.capitalize()}{kind}")
    for name in ("authentication", "authorization")
    for kind, place in (("", "Default"), ("Metadata", "Local"))
}
"""Apache's own keep users only if they are named."""
FIGURES = ("messages_per_second", "broker_cpu_us")
LOADS = {"producer-64": ("plain", "encrypted"), "live-16": ("plain", "encrypted"), "client550-64": ("plain", "signed")}
"""Each with its modes; the last one has the client of 5.5.0, which brings the signatures of ACL 2.0 along."""


class SecuredApache(Apache):
    """5.5.0, permissive, with the certificates of a file, and with the OpenSSL of its distribution."""

    peer = "server550_tls"

    def __init__(self, root: Path, file: str, *, has_users: bool) -> None:
        properties = {"tls.server.mode": "permissive", "tls.config.file": file}
        settings: dict[str, object] = {**USERS, **PROVIDERS} if has_users else {}
        self._cluster = ApacheCluster(root, heap="1g", peer=self.peer, properties=properties, settings=settings)
        self.namesrv, self.broker = self._cluster.namesrv, self._cluster.broker
        self.store = self._cluster.store


class SecuredRocketLake(RocketLake):
    """Ours, the same."""

    def __init__(self, root: Path, file: str, *, has_users: bool) -> None:
        super().__init__(root, {"tlsConfigFile": file, **(USERS if has_users else {})})
        self._file = file

    def _launch(self, *arguments: str) -> None:
        if arguments[0] == "namesrv":
            conf = self.root / "namesrv.conf"
            conf.write_text(f"tlsConfigFile={self._file}\nkvConfigPath={self.root / 'kvConfig.json'}\n")
            arguments = (*arguments, "-c", str(conf))
        super()._launch(*arguments)


SIDES: tuple[type[SecuredApache] | type[SecuredRocketLake], ...] = (SecuredApache, SecuredRocketLake)


async def make_sender(namesrv: str) -> None:
    """The user of a signed run: it may send to the topic of the producer."""
    rule = PolicyInfo("Custom", [EntryInfo("Topic:BenchmarkTest", ["Pub"], None, "Allow")])
    net = NetClient(sign=signing(lambda: ADMIN))
    async with Cluster(namesrv, net) as cluster:
        accounts = ClusterAccounts(cluster)
        await accounts.put_user(UserInfo(SENDER.access_key, SENDER.secret_key, "Normal"), is_new=True)
        await accounts.put_policies(AclInfo(f"{SUBJECT}{SENDER.access_key}", [rule]))


def measured(side: Side, warm: float, seconds: float, clients: Sequence[Program]) -> Values:
    wait_for_sends(side, 100)
    time.sleep(warm)
    window = Window(side, *clients)
    time.sleep(seconds)
    return window.close()


def run(
    kind: type[SecuredApache] | type[SecuredRocketLake],
    load: str,
    options: argparse.Namespace,
    root: Path,
    *,
    file: str,
    mode: str,
) -> Values:
    """Fresh servers, one load."""
    java = ("-Dtls.enable=true",) if mode == "encrypted" else ()
    with ExitStack() as stack:
        if mode == "signed":
            stack.enter_context(wire.signed_as(ADMIN.access_key, ADMIN.secret_key))
        side = stack.enter_context(kind(root, file, has_users=mode == "signed"))
        if load == "client550-64":
            if mode == "signed":
                asyncio.run(make_sender(side.namesrv))
                java = (f"-DaccessKey={SENDER.access_key}", f"-DsecretKey={SENDER.secret_key}")
            with BatchSend(
                side.namesrv, threads=64, per_batch=1, body_bytes=1024, java=java, peer="server550"
            ) as sender:
                return measured(side, options.warm, options.seconds, [sender])
        if load == "producer-64":
            with BenchmarkProducer(side.namesrv, threads=64, body_bytes=1024, java=java) as producer:
                return measured(side, options.warm, options.seconds, [producer])
        with Drain(side.namesrv, java=java) as drain:
            wait_until(lambda: drain.latest().counters["received"] > 0, "the consumer's first message", 60)
            with BenchmarkProducer(side.namesrv, threads=16, body_bytes=1024, java=java) as producer:
                return measured(side, options.warm, options.seconds, [producer, drain])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.secured")
    parser.add_argument("--only", choices=LOADS, help="one load")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-secured-"))
    file = Authority(folder / "authority").file("tls.properties", {"tls.test.mode.enable": "false"})
    result: dict[str, object] = {"machine": machine(), "options": vars(options)}
    runs: dict[str, list[Values]] = {}
    try:
        for load in [options.only] if options.only else LOADS:
            for number in range(options.rounds):
                for kind in SIDES if number % 2 == 0 else reversed(SIDES):
                    for mode in LOADS[load]:
                        name = f"{load} {kind.name} {mode}"
                        place = folder / f"run-{len(runs)}-{number}"
                        values = run(kind, load, options, place, file=file, mode=mode)
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
    target = result_path("secured")
    target.write_text(json.dumps(result | {"runs": runs, "medians": medians}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
