"""The register on real members of etcd: killed, stopped, all down and back; encrypted and with accounts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from interop.etcd import Certificates, EtcdPeers, packaged
from rocketlake.base.errors import LinkError
from rocketlake.controller.decider import Decider
from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.controller.etcd.settings import EtcdSettings
from rocketlake.controller.questions import AlterSet, ApplyId, Elect, Heard
from rocketlake.controller.registers.register import ABSENT, Conflict, OutcomeUnknown, Swapped
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.network import TcpNetwork

ONE_TRY: Any = {"try_seconds": 10, "ask_seconds": 10}
"""A busy machine makes nobody ask twice, which would leave in doubt what became of a swap."""

pytestmark = pytest.mark.timeout(600)  # the first one may have to build etcd


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdPeers]:
    with EtcdPeers(tmp_path_factory.mktemp("etcd")) as peers:
        yield peers


@pytest.fixture
def peers(broken: EtcdPeers) -> EtcdPeers:
    """Three members that are all up."""
    broken.mend()
    return broken


def register(peers: EtcdPeers, **settings: Any) -> EtcdRegister:
    return EtcdRegister(EtcdSettings(peers.addresses, unsafe_versions=peers.is_unsafe, **settings), TcpNetwork())


async def swapped(register: EtcdRegister, key: str, value: bytes) -> float:
    """Write a value whatever it takes; returns the seconds it took."""
    start = time.monotonic()
    while time.monotonic() - start < 20:
        try:
            now = (await register.read(key)).get(key, (b"", ABSENT))
            if now[0] == value or isinstance(await register.swap(key, now[1], value), Swapped):
                return time.monotonic() - start
        except LinkError:
            continue
    raise AssertionError(f"no swap within 20 s: {register.health.troubles}")


async def until(holds: Callable[[], bool], seconds: float = 10) -> float:
    """Wait; returns the seconds it took."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds
        await asyncio.sleep(0.005)
    return time.monotonic() - start


async def in_a_thread(call: Callable[..., object], *words: object) -> None:
    await asyncio.get_running_loop().run_in_executor(None, call, *words)


async def test_two_registers_agree_and_hear_of_each_other(peers: EtcdPeers) -> None:
    async with register(peers, **ONE_TRY) as one, register(peers, **ONE_TRY, poll_seconds=600) as other:
        told: list[set[str]] = []
        other.watch("agree/", lambda keys: told.append(set(keys)))
        await until(lambda: told == [set()])  # it says that it begins: what changed before may be told by nobody
        first = await one.swap("agree/a", ABSENT, b"1", {"agree/h/1": b"why"})
        assert isinstance(first, Swapped)
        await until(lambda: {"agree/a", "agree/h/1"} <= set().union(*told))  # by the watch: no look comes so soon
        assert await other.swap("agree/a", ABSENT, b"2") == Conflict(b"1", first.revision)
        second = await other.swap("agree/a", first.revision, b"2", {"agree/h/1": None})
        assert isinstance(second, Swapped)
        assert await one.swap("agree/a", first.revision, b"3") == Conflict(b"2", second.revision)
        assert await one.read("agree/") == {"agree/a": (b"2", second.revision)}


async def test_one_of_many_who_swap_at_once_wins(peers: EtcdPeers) -> None:
    async with register(peers, **ONE_TRY) as one, register(peers, **ONE_TRY) as other:
        revision: int = ABSENT
        for round_number in range(5):
            swaps: list[Awaitable[Any]] = [
                each.swap("race/a", revision, f"{round_number}/{number}".encode())
                for number in range(4)
                for each in (one, other)
            ]
            ended = await asyncio.gather(*swaps)
            (won,) = (each for each in ended if isinstance(each, Swapped))
            assert {each.revision for each in ended} == {won.revision}
            revision = won.revision


@pytest.mark.long
@pytest.mark.crash
async def test_a_killed_leader_costs_an_election(peers: EtcdPeers) -> None:
    async with register(peers) as one:
        await swapped(one, "kill/a", b"before")
        leader = peers.leader()
        assert leader is not None
        peers.kill(leader)
        assert await swapped(one, "kill/a", b"after") < 4
        assert (await one.read("kill/"))["kill/a"][0] == b"after"


@pytest.mark.long
@pytest.mark.crash
async def test_a_stopped_leader_costs_an_election_and_its_old_answers_are_not_believed(peers: EtcdPeers) -> None:
    async with register(peers) as one:
        told: list[object] = []
        one.watch("stop/", told.append)
        await swapped(one, "stop/a", b"before")
        leader = peers.leader()
        assert leader is not None
        peers.pause(leader)
        assert await swapped(one, "stop/a", b"after") < 4
        peers.resume(leader)
        one._cluster._first = leader  # ask the one that was stopped
        assert (await one.read("stop/"))["stop/a"][0] == b"after"
        told.clear()
        await swapped(one, "stop/b", b"heard")
        assert await until(lambda: bool(told)) < 3


@pytest.mark.long
@pytest.mark.crash
async def test_while_all_members_are_down_nothing_is_decided_and_all_goes_on_when_they_are_back(
    peers: EtcdPeers,
) -> None:
    async with register(peers, ask_seconds=0.7) as one:
        told: list[object] = []
        await swapped(one, "down/a", b"before")
        revision = (await one.read("down/"))["down/a"][1]
        for member in range(3):
            peers.pause(member)
        with pytest.raises(OutcomeUnknown):
            await one.swap("down/a", revision, b"unknown")
        for member in range(3):
            peers.kill(member)
        with pytest.raises(LinkError) as error:
            await one.swap("down/a", revision, b"never")
        assert not isinstance(error.value, OutcomeUnknown)
        await until(lambda: not one.health.is_green)
        one.watch("down/", told.append)
        await in_a_thread(peers.mend)
        await swapped(one, "down/a", b"after")
        await until(lambda: one.health.is_green and bool(told))


def encrypted(folder: Path, name: str) -> Certificates:
    """A new authority, and a certificate of it for the name."""
    authority, files = trustme.CA(), Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    issued = authority.issue_cert(name)
    authority.cert_pem.write_to_path(files.ca)
    issued.cert_chain_pems[0].write_to_path(files.certificate)
    issued.private_key_pem.write_to_path(files.key)
    return files


@pytest.mark.long
async def test_members_with_certificates_and_accounts(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    (tmp_path / "wrong").mkdir()
    certificates, others = encrypted(tmp_path, "127.0.0.1"), encrypted(tmp_path / "wrong", "127.0.0.1")
    with EtcdPeers(tmp_path / "etcd", 1, certificates) as peers:
        peers.control("user", "add", "root:admin")
        peers.control("user", "grant-role", "root", "root")
        peers.control("user", "add", "rocketlake:secret")
        peers.control("role", "add", "rocketlake")
        peers.control("role", "grant-permission", "rocketlake", "readwrite", "--prefix", "/rocketlake/")
        peers.control("user", "grant-role", "rocketlake", "rocketlake")
        account: dict[str, Any] = {"user": "rocketlake", "password_file": password, "ca_file": certificates.ca}
        async with register(peers, **account) as one:
            assert isinstance(await one.swap("early", ABSENT, b"no accounts yet"), Swapped)
            await in_a_thread(peers.control, "auth", "enable")
            assert isinstance(await one.swap("a", ABSENT, b"1"), Swapped)
            await in_a_thread(peers.kill, 0)
            await in_a_thread(peers.start)  # it forgot the tokens that it had given
            assert (await one.read("a"))["a"][0] == b"1"
            peers.control("--user=root:admin", "role", "grant-permission", "rocketlake", "read", "/rocketlake/v1/a")
            assert (await one.read("a"))["a"][0] == b"1"  # the token is of an older revision of the accounts
        async with register(peers, **account, root="/other/") as stranger:
            with pytest.raises(LinkError, match=r"permission denied.*grant the account"):
                await stranger.swap("a", ABSENT, b"1")
        password.write_text("wrong")
        async with register(peers, **account) as one:
            with pytest.raises(LinkError, match="authentication failed"):
                await one.read("a")
        async with register(peers, **{**account, "ca_file": others.ca}) as one:
            with pytest.raises(LinkError, match=r"certificate verify failed|unable to get local issuer"):
                await one.read("a")


@pytest.mark.long
async def test_a_version_that_can_diverge_is_for_tests_only(tmp_path: Path) -> None:
    with EtcdPeers(tmp_path, 1, binary=packaged("etcd")) as peers:
        async with EtcdRegister(EtcdSettings(peers.addresses), TcpNetwork()) as one:
            with pytest.raises(LinkError, match=r"etcd 3\.5\.1 is not used: members of 3.5.0 to 3.5.2 can diverge"):
                await one.read("")
        async with register(peers) as one:
            assert await one.read("nothing/") == {}


def decider_of(server: NameServer) -> Decider:
    assert server._controlling is not None
    return server._controlling.controller.decider


@pytest.mark.long
@pytest.mark.crash
async def test_the_controllers_of_two_name_servers_decide_together(peers: EtcdPeers, tmp_path: Path) -> None:
    config = NameServerConfig(
        listen_port=0,
        kv_config_path=tmp_path / "kv.json",
        enable_controller=True,
        controller_etcd_addresses=peers.addresses,
        controller_etcd_unsafe_versions=peers.is_unsafe,
    )
    alive = {1: Heard(), 2: Heard()}
    async with NameServer(config) as first, NameServer(config) as second:
        one, two = decider_of(first), decider_of(second)
        for broker_id in (1, 2):
            await one.ask("b", ApplyId("c", broker_id, f"h{broker_id}:1;7"), lambda _: alive)
        elected = (await one.ask("b", Elect(asker=1), lambda _: alive)).group
        await until(lambda: two.groups.get("b") == elected, 3)
        leader = peers.leader()
        assert leader is not None
        peers.kill(leader)
        joined = await two.ask("b", AlterSet(1, elected.master_epoch, frozenset({1, 2}), 1), lambda _: alive)
        assert (joined.group.master, joined.group.in_sync) == (1, {1, 2})
        await until(lambda: one.groups["b"] == joined.group, 5)
        assert first.health.is_green


def test_it_works_on_the_loop_of_a_server(peers: EtcdPeers) -> None:
    """Servers run on uvloop, whose connections are of its own classes."""

    async def write() -> float:
        async with register(peers) as on_uvloop:
            return await swapped(on_uvloop, "loop", b"uvloop")

    assert uvloop.run(write()) < 20
