"""Links of one thread to a broker: encrypted and signed as all others, closed by the broker at any time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.client.calls.own_link import OwnLink
from rocketlake.client.config import ClientConfig
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import Way
from rocketlake.net.tls.network import HandshakeFailed
from rocketlake.protocol.command import FLAG_RESPONSE, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.spark.schema import arrow_schema, chosen_schema
from rocketlake.spark.source.cluster_brokers import connect
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_read import read_ranges
from rocketlake.testing.cluster import EmbeddedCluster
from tests.tls_files import Authority

Options = Callable[..., Any]
QUEUE = MessageQueue("T", "broker-a", 0)
ROWS = 20_000
SCHEMA = arrow_schema(chosen_schema("queueOffset,body"))


@contextmanager
def filled(root: Path, settings: dict[str, str], *, tls: str = "") -> Iterator[tuple[EmbeddedCluster, dict[str, str]]]:
    """Queue 0 of topic T holds ROWS messages, whose bodies are their numbers; with the options that lead there."""
    with EmbeddedCluster(root, settings=settings) as there:
        options = {"namesrvAddr": there.namesrv, "startingOffsets": "earliest", "tlsConfigFile": tls}
        password = root / "admin_password"
        if password.exists():
            options["credentialsFile"] = str(root / "admin.yml")
            Path(options["credentialsFile"]).write_text(
                f"accessKey: admin\nsecretKey: {password.read_text().strip()}\n"
            )
        config = ClientConfig(
            namesrv=there.namesrv, tls_config_file=tls, credentials_file=options.get("credentialsFile", "")
        )

        async def fill() -> None:
            async with Producer("testing", client_config=config) as producer:
                queue = (await producer.queues("T"))[0]
                for start in range(0, ROWS, 1000):
                    await producer.send_batch(
                        [Message("T", b"%d" % n) for n in range(start, start + 1000)], queue=queue
                    )

        there.run(fill())
        yield there, options


def peers(there: EmbeddedCluster) -> list[Any]:
    return list(there.standalone.broker._servers[0].links)


def reading(options: Any, low: int = 0) -> Iterator[list[tuple[int, bytes]]]:
    for batch in read_ranges(connect(options), [QueueRange(QUEUE, low, ROWS)], options, SCHEMA):
        columns = (batch.column(name).to_pylist() for name in ("queueOffset", "body"))
        yield [*zip(*columns, strict=True)]


def expected(low: int = 0) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(low, ROWS)]


@pytest.mark.parametrize("kind", ["plain", "encrypted", "signed"])
def test_a_long_range_is_read_over_a_link_of_its_own(tmp_path: Path, make_options: Options, kind: str) -> None:
    settings, tls = {}, ""
    if kind == "encrypted":
        tls = Authority(tmp_path / "authority").file()
        settings = {"tlsMode": "enforcing", "tlsConfigFile": tls}
    elif kind == "signed":
        settings = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    with filled(tmp_path / "cluster", settings, tls=tls) as (there, given):
        options = make_options(**given)
        assert [row for rows in reading(options) for row in rows] == expected()
        common = set(peers(there))
        rows = reading(options)
        found = [*next(rows), *next(rows)]
        (own,) = {each for each in peers(there) if each not in common}
        assert own.is_encrypted == (kind == "encrypted")
        for more in rows:
            found += more
        assert found == expected()


def test_a_link_that_cannot_be_encrypted_names_the_cure(tmp_path: Path, make_options: Options) -> None:
    trusted, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    settings = {"tlsMode": "enforcing", "tlsConfigFile": trusted.file()}
    with filled(tmp_path / "cluster", settings, tls=trusted.file()) as (there, given):
        broker = there.standalone.broker_address
        brokers = connect(make_options(**given | {"tlsConfigFile": other.file()}))

        async def way() -> Way | None:
            return brokers._client.net.way(broker)

        found = brokers.run(way())
        assert found is not None
        with pytest.raises(HandshakeFailed, match="trustCertPath"):
            found.open()


def test_a_broker_that_restarts_in_the_middle_of_a_read(tmp_path: Path, make_options: Options) -> None:
    with filled(tmp_path / "cluster", {}) as (there, given):
        options = make_options(**given | {"fetchOffset.numRetries": "50", "pullBatchSize": "32"})
        rows = reading(options)
        found = [*next(rows), *next(rows)]
        there.stop()
        there.start()
        for more in rows:
            found += more
        assert found == expected()


def test_a_broker_that_cuts_links_again_and_again(tmp_path: Path, make_options: Options) -> None:
    with filled(tmp_path / "cluster", {}) as (there, given):

        async def cut() -> None:
            for link in peers(there):
                link.abort("test", "cut")

        found = []
        for rows in reading(make_options(**given | {"fetchOffset.retryIntervalMs": "10"}), 7):
            found += rows
            there.run(cut())
        assert found == expected(7)


def answer(**values: Any) -> bytes:
    return b"".join(encode_command(Command(0, flag=FLAG_RESPONSE, **values)))


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", LinkError),
        (b"\0\0", LinkError),
        (answer(opaque=1, body=b"12345")[:-3], LinkError),
        (b"\xff\xff\xff\xff\0\0\0\1", ProtocolError),
        (b"\x7f\0\0\0\0\0\0\1", ProtocolError),
        (b"\0\0\0\1\0\0\0\0", ProtocolError),
        (b"\0\0\0\x08\0\0\1\0", ProtocolError),
        (b"\0\0\0\x08\7\0\0\4{}{}", ProtocolError),
        (b"\0\0\0\x08\0\0\0\4{{{{", ProtocolError),
        (b"\0\0\0\x09\0\0\0\4{{{{1", ProtocolError),
        (b"".join(encode_command(Command(0, opaque=1))), ProtocolError),
    ],
)
@pytest.mark.parametrize("closes", [True, False])
def test_what_is_no_answer_ends_the_link(sent: bytes, error: type[Exception], closes: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = OwnLink(Way("b:1", lambda: ours, None), 0.05)
        theirs.sendall(sent)
        if closes:
            theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(error):
            _command, size = link.head()
            link.read(memoryview(bytearray(size)))
            pytest.fail("an answer")


def test_answers_are_read_to_where_the_caller_says() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = OwnLink(Way("b:1", lambda: ours, None), 5)
        theirs.sendall(
            answer(opaque=7, body=b"12345") + answer(opaque=3, remark="no body") + answer(opaque=4, body=b"6")
        )
        place = bytearray(8)
        for opaque, size in ((7, 5), (3, 0), (4, 1)):
            command, found = link.head()
            assert (command.opaque, found) == (opaque, size)
            link.read(memoryview(place)[:size])
        assert place == b"62345\0\0\0"
