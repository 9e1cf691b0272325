"""Apache's brokers in controller mode, and its mqadmin, on the controller inside our name server.

5.5.0 in the suite; `make ha-matrix` takes 5.3.3 as well, and stops a master with SIGSTOP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.replicas import JavaReplica, mqadmin
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import GroupsView, GroupView, SwitchesView
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import GetSwitchesHeader
from rocketlake.protocol.request_code import RequestCode
from tests.interop.mixed_pair import our_controller
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

GROUP = "java-group"
PEERS = releases("server550")
IS_LONG = len(PEERS) > 1


@pytest.fixture(scope="module", params=PEERS)
def peer(request: pytest.FixtureRequest) -> str:
    """The name of the peer's jars."""
    return str(request.param)


@pytest.fixture(scope="module")
def controller(peer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our name server with its controller, started by the command that users type."""
    jars_of(peer)
    with our_controller(tmp_path_factory.mktemp("namesrv")) as address:
        yield address


@pytest.fixture(scope="module")
def brokers(peer: str, controller: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[JavaReplica]]:
    """Two brokers of one group."""
    root = tmp_path_factory.mktemp("replicas")
    replicas = [JavaReplica(root / name, controller, peer=peer, group=GROUP) for name in ("one", "two")]
    try:
        for replica in replicas:
            replica.start()
        for replica in replicas:
            replica.wait()
        yield replicas
    finally:
        for replica in replicas:
            replica.kill()


async def ask(address: str, command: Command) -> bytes:
    client = NetClient()
    try:
        answer = await client.invoke(address, command)
    finally:
        await client.stop()
    assert answer.code == 0, answer.remark
    return answer.body_bytes


async def until(address: str, holds: Callable[[GroupView], bool], seconds: float = 60) -> GroupView:
    """The state of the group as soon as it is as wanted."""
    client = NetClient()
    end = time.monotonic() + seconds
    try:
        while True:
            answer = await client.invoke(address, Command.request(RequestCode.CONTROLLER_GET_GROUPS))
            for group in GroupsView.decode(answer.body_bytes).groups:
                if holds(group):
                    return group
                last = group
            assert time.monotonic() < end, last
    finally:
        await client.stop()


async def test_brokers_get_ids_a_set_and_a_new_master(
    peer: str, controller: str, brokers: list[JavaReplica], tmp_path: Path
) -> None:
    """One story in one test: each step needs the one before, and a JVM takes seconds to start."""
    group = await until(controller, lambda group: len(group.in_sync) == 2)
    assert (group.broker_name, group.cluster, group.master_epoch) == (GROUP, "DefaultCluster", 1)
    assert {member.address for member in group.members} == {broker.address for broker in brokers}
    assert [member.pulse for member in group.members] == ["ALIVE", "ALIVE"]
    first = group.master
    assert first is not None
    other = 3 - first

    # planned: an operator names the next master; Java takes over and its old master follows
    shown, metadata, epochs, elected = mqadmin(
        tmp_path,
        ("getSyncStateSet", "-a", controller, "-b", GROUP),
        ("getControllerMetaData", "-a", controller),
        ("getBrokerEpoch", "-n", controller, "-b", GROUP),
        ("electMaster", "-a", controller, "-b", str(other), "-bn", GROUP, "-c", "DefaultCluster"),
        peer=peer,
    )
    assert f"#MasterBrokerId\t{first}" in shown
    assert shown.count("alive=true") == 2
    assert "#SyncStateSetNums\t2" in shown
    assert f"#ControllerLeaderAddress\t{controller}" in metadata
    assert epochs.count("epoch=1") == 2
    addresses = {member.broker_id: member.address for member in group.members}
    assert f"#BrokerMasterAddr\t{addresses[other]}" in elected, elected
    group = await until(controller, lambda group: len(group.in_sync) == 2)
    assert (group.master, group.master_epoch) == (other, 2)

    by_id = {each: broker for broker in brokers for each, at in addresses.items() if at == broker.address}
    master, next_one = other, first
    switches = [(2, first, other), (1, None, first)]
    if IS_LONG:  # SIGSTOP: its connections stay, so its silence decides: 1.5 s, as it asked for
        by_id[master].pause()
        paused_at = time.monotonic()
        group = await until(controller, lambda group: group.master == next_one)
        assert 1 < time.monotonic() - paused_at < 8
        by_id[master].resume()
        group = await until(controller, lambda group: len(group.in_sync) == 2)
        switches.insert(0, (3, master, next_one))
        master, next_one = next_one, master

    # kill -9: the machine refuses connections, so the other one is chosen at once
    killed_at = time.monotonic()
    by_id[master].kill()
    group = await until(controller, lambda group: group.master == next_one)
    switches.insert(0, (len(switches) + 1, master, next_one))
    assert (group.master_epoch, group.in_sync) == (len(switches), [next_one])
    assert time.monotonic() - killed_at < 5, "the killed master was not noticed by its closed link"

    header = GetSwitchesHeader(broker_name=GROUP)
    kept = SwitchesView.decode(await ask(controller, Command.request(RequestCode.CONTROLLER_GET_SWITCHES, header)))
    assert [(switch.epoch, switch.before, switch.master) for switch in kept.switches] == switches

    (cleaned,) = mqadmin(
        tmp_path,
        ("cleanBrokerMetadata", "-a", controller, "-bn", GROUP, "-b", str(master), "-c", "DefaultCluster"),
        peer=peer,
    )
    assert "success" in cleaned, cleaned
    group = await until(controller, lambda group: len(group.members) == 1)
    assert (group.master, group.next_id) == (next_one, 3)
