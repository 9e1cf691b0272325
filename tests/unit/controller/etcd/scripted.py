"""A cluster of etcd played in memory: members that share one history, and answer each request as a script says."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import h11

from rocketlake.base.clock import ManualClock
from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.controller.etcd.settings import EtcdSettings
from rocketlake.net.memory_net import MemoryNet
from rocketlake.testing.virtual_time import run_virtual

CLUSTER_ID = 14841639068965178418
"""Above 2^63, as real ones."""


@dataclass(frozen=True)
class Says:
    """A refusal, or any other answer."""

    code: int = 14
    text: str = "etcdserver: request timed out"
    status: int = 503
    body: bytes | None = None
    is_made: bool = False
    """True: the change is made all the same."""


SILENT = Says(status=0)
SILENT_MADE = Says(status=0, is_made=True)


class Keys:
    """The history of the keys, one for all members."""

    def __init__(self) -> None:
        self.revision = 1
        self.states: dict[int, dict[bytes, tuple[bytes, int]]] = {1: {}}
        self.watchers: list[Callable[[list[bytes]], None]] = []

    @property
    def now(self) -> dict[bytes, tuple[bytes, int]]:
        return self.states[self.revision]

    def put(self, changes: dict[bytes, bytes | None]) -> None:
        state = dict(self.now)
        self.revision += 1
        for key, value in changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = (value, self.revision)
        self.states[self.revision] = state
        for watcher in tuple(self.watchers):
            watcher(list(changes))


class Peer:
    """One member. `script` holds what it says to the next requests of keys; None: the truth."""

    def __init__(self, name: str, number: int, keys: Keys) -> None:
        self.name = name
        self.number = number
        self.keys = keys
        self.script: deque[Says | None] = deque()
        self.version = "3.5.16"
        self.term = 5
        self.cluster_id = CLUSTER_ID
        self.revision: int | None = None
        """Where it stands; None: at the newest."""
        self.token: str | None = None
        """What a request must bring; None: there are no accounts."""
        self.to_log_in: Says | None = None
        """The answer to who wants a token; None: a token."""
        self.log_ins = 0
        self.is_silent_watch = False
        self.delay_seconds = 0.0
        """It carries requests of keys out at once, and answers so much later: its disk is slow."""
        self.asked: list[str] = []
        self.links: list[PeerLink] = []

    def header(self) -> dict[str, str]:
        return {
            "cluster_id": str(self.cluster_id),
            "member_id": str(self.number),
            "revision": str(self.revision or self.keys.revision),
            "raft_term": str(self.term),
        }

    def answer(self, path: str, ask: Any, token: str) -> Says:
        if path == "/version":
            return self.tell({"etcdserver": self.version})
        self.asked.append(path)
        if path == "/v3/auth/authenticate" and self.to_log_in is not None:
            return self.to_log_in
        if path == "/v3/auth/authenticate":
            if self.token is None:
                return Says(9, "etcdserver: authentication is not enabled", 400)
            self.log_ins += 1
            self.token = f"token-{self.log_ins}"
            return self.tell({"token": self.token})
        says = self.script.popleft() if self.script else None
        if says is None and self.token is not None and token != self.token:
            code, text = (16, "etcdserver: invalid auth token") if token else (3, "etcdserver: user name is empty")
            return Says(code, text, 401)
        if says is not None and not says.is_made:
            return says
        told = self.tell(self.swap(ask) if path == "/v3/kv/txn" else self.range(ask))
        return told if says is None else says

    def tell(self, content: dict[str, Any]) -> Says:
        return Says(status=200, body=json.dumps({"header": self.header(), **content}).encode())

    def swap(self, ask: dict[str, Any]) -> dict[str, Any]:
        (compared,) = ask["compare"]
        key = raw(compared["key"])
        if self.keys.now.get(key, (b"", 0))[1] != int(compared["mod_revision"]):
            return {"responses": [{"response_range": self.range({"key": text(key)})}]}
        changes: dict[bytes, bytes | None] = {}
        for change in ask["success"]:
            for kind, what in change.items():
                changes[raw(what["key"])] = raw(what["value"]) if kind == "request_put" else None
        self.keys.put(changes)
        return {"succeeded": True}

    def range(self, ask: dict[str, Any]) -> dict[str, Any]:
        state = self.keys.states[int(ask.get("revision", 0)) or self.revision or self.keys.revision]
        first, end = raw(ask["key"]), raw(ask["range_end"]) if "range_end" in ask else b""
        since = int(ask.get("min_mod_revision", 0))
        kvs = [
            {"key": text(key), "value": text(value), "mod_revision": str(revision)}
            for key, (value, revision) in sorted(state.items())
            if (first <= key < end if end else key == first) and revision >= since
        ]
        return {"kvs": kvs} if kvs else {}


class PeerLink(asyncio.Protocol):
    """One connection to a member."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.http = h11.Connection(h11.SERVER)
        peer.links.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.http.receive_data(data)
        event = self.http.next_event()
        while event not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Request):
                self.path = event.target.decode()
                self.token = dict(event.headers).get(b"authorization", b"").decode()
                self.body = b""
            elif isinstance(event, h11.Data):
                self.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self.serve()
            event = self.http.next_event()

    def serve(self) -> None:
        ask = json.loads(self.body or b"null")
        if self.path == "/v3/watch":
            self.peer.asked.append(self.path)
            self.send(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")]))
            self.line({"created": True})
            self.peer.keys.watchers.append(self.changed)
            return
        says = self.peer.answer(self.path, ask, self.token)
        if says.status:
            body = says.body
            if body is None:
                body = json.dumps({"error": says.text, "code": says.code, "message": says.text}).encode()
            delay_seconds = self.peer.delay_seconds if "/kv/" in self.path else 0
            asyncio.get_running_loop().call_later(delay_seconds, self.reply, says.status, body)

    def reply(self, status: int, body: bytes) -> None:
        if not self.transport.is_closing():
            self.send(
                h11.Response(status_code=status, headers=[("Content-Length", str(len(body)))]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            self.http.start_next_cycle()

    def changed(self, keys: list[bytes]) -> None:
        if not self.peer.is_silent_watch:
            revision = str(self.peer.keys.revision)
            self.line({"events": [{"kv": {"key": text(key), "mod_revision": revision}} for key in keys]})

    def line(self, result: dict[str, Any]) -> None:
        line = json.dumps({"result": {"header": self.peer.header(), **result}}).encode() + b"\n"
        self.send(h11.Data(data=line))

    def send(self, *events: Any) -> None:
        self.transport.write(b"".join(self.http.send(event) or b"" for event in events))

    def connection_lost(self, error: Exception | None) -> None:
        if self.changed in self.peer.keys.watchers:
            self.peer.keys.watchers.remove(self.changed)


class World:
    """Three members, and a register that asks them."""

    def __init__(self, clock: ManualClock, **settings: Any) -> None:
        self.clock = clock
        self.net = MemoryNet(clock=clock)
        self.keys = Keys()
        self.peers = [Peer(name, number, self.keys) for number, name in enumerate("abc", 1)]
        self.hosts = {peer.name: self.net.host(peer.name) for peer in self.peers}
        self.settings = EtcdSettings("http://a:2379;http://b:2379;http://c:2379", **{"root": "/r/", **settings})
        self.register = EtcdRegister(self.settings, self.net.host("controller"), clock)

    @property
    def a(self) -> Peer:
        """The member that is asked first."""
        return self.peers[0]

    async def listen(self, *peers: Peer) -> None:
        for peer in peers or self.peers:
            await self.hosts[peer.name].listen(lambda peer=peer: PeerLink(peer), peer.name, 2379)


def play(story: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a story with three members that are up. The register watches only when the story starts it whole."""
    clock = ManualClock()

    async def told() -> None:
        world = World(clock, **settings)
        async with world.net:
            await world.listen()
            await world.register._cluster.start()
            try:
                await story(world)
            finally:
                await world.register.stop()

    run_virtual(told(), clock)


def raw(encoded: str) -> bytes:
    return base64.b64decode(encoded)


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()
