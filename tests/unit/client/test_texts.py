"""Texts for a newcomer: names that can be imported, messages that are checked, cures that are things to do."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rocketlake
from rocketlake import ConsumerConfig, Message, Producer, ProducerConfig, PullConsumer
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.client.calls.route import NameServers
from rocketlake.client.config import ClientConfig
from rocketlake.client.errors import SendFailed
from rocketlake.net.client import NetClient


def test_every_public_name_can_be_imported() -> None:
    for name in rocketlake.__all__:
        assert getattr(rocketlake, name) is not None
    assert rocketlake.NoRoute is rocketlake.client.errors.NoRoute  # type: ignore[attr-defined]


@pytest.mark.long
def test_a_misspelt_name_is_seen_by_a_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from rocketlake import Produser\n")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), program]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(rocketlake.__file__).parents[1]
    )
    assert "Produser" in result.stdout, result.stdout + result.stderr
    assert "Producer" in result.stdout


@pytest.mark.parametrize("body", [5, "text", None, 1.5, ["a"]])
def test_a_body_is_bytes(body: Any) -> None:
    with pytest.raises(UsageError, match="a message body is bytes"):
        Message("t", body)


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_whatever_has_bytes_is_a_body(body: Any) -> None:
    assert Message("t", body).body == b"x"


@pytest.mark.parametrize("make", [lambda: ProducerConfig(retries=99), lambda: ConsumerConfig(batch_size=0)])
def test_the_cure_of_a_range_is_the_range(make: Any) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.hint in ("give it 0 to 16", "give it 1 to 1024")
    assert "it means:" in caught.value.what


def test_a_port_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="from 1 to 65535"):
        _ = ClientConfig(namesrv="localhost:99999").name_servers


async def test_a_poll_that_reads_nothing_says_so(peers: Any) -> None:
    instance = peers.client()
    await instance.start()
    async with PullConsumer("g", instance=instance) as consumer:
        with pytest.raises(UsageError, match="subscribe"):
            await consumer.poll(timeout_ms=0)


def test_an_error_has_one_cure() -> None:
    attempts = [("broker-a", LinkError("no answer", where="10.0.0.1:10911", hint="is it up?"))]
    text = str(SendFailed("t", attempts, timeout_ms=1, timed_out=True))
    assert text.count("Cure:") == 1
    assert text.count("10.0.0.1:10911") == 1


async def test_a_name_server_that_is_none_is_said_to_be_none(peers: Any, make_broker: Any) -> None:
    await make_broker("a")
    instance = peers.client(namesrv="a:10911")
    await instance.start()
    with pytest.raises(UsageError, match="is not a name server"):
        await instance.queues_to_publish("T")


async def test_name_servers_that_are_away_are_named_once(peers: Any) -> None:
    instance = peers.client(namesrv="gone:9876")
    await instance.start()
    with pytest.raises(LinkError) as caught:
        await instance.queues_to_publish("T")
    assert str(caught.value).count("Cure:") == 1


async def test_a_server_that_ends_connections_may_be_one_that_encrypts() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server, Producer("g", namesrv=f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as producer:
        with pytest.raises(LinkError, match=r"no name server answers: link to .* closed") as caught:
            await producer.queues("T")
    assert "--tls-config" in caught.value.hint


async def test_a_client_that_is_closed_is_no_server_that_encrypts() -> None:
    client = NetClient()
    await client.close()
    with pytest.raises(LinkError, match="the client is closed") as caught:
        await NameServers(client, ["127.0.0.1:9876"]).route("T")
    assert "--tls-config" not in caught.value.hint


async def test_an_outage_is_one_line(peers: Any, caplog: Any) -> None:
    instance = peers.client(route_interval_ms=10)
    await instance.start()
    for topic in ("T", "U", "V"):
        instance._published[topic] = ("TBW102", 4)
    await peers.kill("ns")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await instance._refresh_routes()
    assert caplog.text.count("stays as it was") == 1
