"""The port for slaves of a broker that knows users: strangers get no byte of the log, and members go on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.proof import MARK, answer
from rocketlake.auth.user import User
from rocketlake.broker.broker import Broker
from rocketlake.codec.record import decode_records
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, SLAVE, ReplicaPair

INNER = Credentials("inner", "inner-secret")
USERS: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "inner_credentials": f'{{"accessKey":"{INNER.access_key}","secretKey":"{INNER.secret_key}"}}',
}
STRANGER = "10.0.0.66"
START = (0).to_bytes(8, "big")


class Pair(ReplicaPair):
    """Master and slave that know users. The slave has what the master has, if it may."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**(USERS | settings))
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.77"), sign=signing(lambda: INNER))

    async def start(self) -> None:
        await super().start()
        self.master.topics.put(TopicConfig("T"))
        await self.clock.run_for(2000)

    def put(self, body: bytes) -> None:
        assert self.master.store.put(PutMessage("T", 0, body)).status.is_stored

    def bodies(self, broker: Broker) -> list[bytes]:
        slices = broker.store.get("T", 0, 0, 1000, 1 << 30).slices
        return [bytes(message.body) for message in decode_records(b"".join(slices))]

    async def stranger(self, host: str = STRANGER) -> Stranger:
        peer = await self.net.host(host).connect(Stranger, MASTER, 10912)
        await self.clock.settle()
        return cast(Stranger, peer)


class Stranger(asyncio.Protocol):
    """Says what a test wants."""

    def __init__(self) -> None:
        self.data = b""
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False


async def test_a_slave_that_proves_itself_has_the_log_and_a_stranger_beside_it_has_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = Pair()
    await pair.start()
    try:
        peer = await pair.stranger()
        peer.transport.write(START)
        pair.put(b"secret body")
        await pair.clock.run_for(1000)
        assert pair.bodies(pair.slave) == [b"secret body"]
        assert (len(peer.data), peer.data[: len(MARK)]) == (48, MARK)  # the question, and nothing else
        for _ in range(30):  # it talks on as if it followed
            peer.transport.write(START)
            await pair.clock.run_for(1000)
        assert (len(peer.data), peer.is_open) == (48, False)
        assert [slave.address.partition(":")[0] for slave in pair.master.replicas.leader.slaves()] == [SLAVE]
        with caplog.at_level(logging.WARNING):
            pair.put(b"later")
            await pair.clock.run_for(1000)
        assert pair.bodies(pair.slave) == [b"secret body", b"later"]
    finally:
        await pair.stop()


@pytest.mark.parametrize(
    "credentials",
    [Credentials("inner", "another-secret"), Credentials("nobody", "x" * 9), Credentials("reader", "reader-secret")],
    ids=["a wrong secret", "an unknown user", "a user without the right"],
)
async def test_who_may_not_have_the_log_is_refused_and_the_log_says_so(
    credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair()
    await pair.start()
    try:
        accounts = pair.master.ground.accounts.file
        assert accounts is not None
        accounts.accounts.put_user(User("reader", "reader-secret"))
        pair.put(b"secret body")
        peer = await pair.stranger()
        peer.transport.write(START)
        await pair.clock.settle()
        peer.transport.write(answer(peer.data, credentials))
        await pair.clock.settle()
        assert (len(peer.data), peer.is_open) == (48, False)
        assert f"user {credentials.access_key}" in caplog.text
    finally:
        await pair.stop()


async def test_an_answer_that_was_heard_is_good_for_no_other_connection() -> None:
    pair = Pair()
    await pair.start()
    try:
        pair.put(b"secret body")
        first, second = await pair.stranger(), await pair.stranger()
        for peer in (first, second):
            peer.transport.write(START)
        await pair.clock.settle()
        heard = answer(first.data, INNER)
        for peer in (first, second):
            peer.transport.write(heard)
        await pair.clock.settle()
        assert b"secret body" in first.data
        assert (len(second.data), second.is_open) == (48, False)
    finally:
        await pair.stop()


async def test_strangers_that_take_all_places_are_pushed_out_by_a_slave() -> None:
    pair = Pair(ha_connections_max=4)
    await pair.namesrv.start()
    await pair.master.start()
    try:
        crowd = [await pair.stranger(f"10.0.1.{number}") for number in range(4)]
        for peer in crowd:
            peer.transport.write(START)
        await pair.slave.start()
        pair.master.topics.put(TopicConfig("T"))
        await pair.clock.run_for(2000)
        pair.put(b"body")
        await pair.clock.run_for(1000)
        assert pair.bodies(pair.slave) == [b"body"]
        more = [await pair.stranger(f"10.0.2.{number}") for number in range(20)]
        for peer in more:
            peer.transport.write(START)
        pair.put(b"more")
        await pair.clock.run_for(1000)
        assert pair.bodies(pair.slave) == [b"body", b"more"]
    finally:
        await pair.stop()


async def test_with_the_setting_a_slave_of_apaches_follows_and_ours_does_too() -> None:
    pair = Pair(ha_allow_unauthenticated=True)
    await pair.start()
    try:
        pair.put(b"body")
        peer = await pair.stranger()
        peer.transport.write(START)
        await pair.clock.run_for(1000)
        assert b"body" in peer.data
        assert pair.bodies(pair.slave) == [b"body"]
    finally:
        await pair.stop()


async def test_who_says_nothing_of_itself_is_named_with_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair()
    await pair.start()
    try:
        peer = await pair.stranger()
        peer.transport.write(START)
        await pair.clock.settle()
        peer.transport.close()  # as Apache's slave does with an offset that is not its own
        await pair.clock.settle()
        assert "haAllowUnauthenticated" in caplog.text
    finally:
        await pair.stop()


async def test_a_slave_without_users_says_what_it_lacks() -> None:
    pair = Pair()
    pair.slave = pair.new_broker(
        SLAVE, 1, authentication_enabled=False, authorization_enabled=False, inner_credentials=""
    )
    await pair.start()
    try:
        await pair.clock.run_for(12_000)
        assert "innerClientAuthenticationCredentials" in "".join(
            trouble.reason for trouble in pair.slave.health.troubles.values()
        )
    finally:
        await pair.stop()
