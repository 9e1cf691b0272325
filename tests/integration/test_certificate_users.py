"""A cluster where a client is the user that its certificate names: who gets in, who signs all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketlake import ClientConfig, Message, Producer
from rocketlake.base.errors import RocketLakeError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.test_access_control import SETTINGS, Guarded
from tests.tls_files import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    file = authority.file("servers", authority.asking_clients("optional"))
    settings = {**SETTINGS, "certificateUsers": "true", "tlsConfigFile": file}
    with EmbeddedCluster(folder, settings=settings) as cluster:
        guarded = Guarded(cluster, folder)
        for topic in ("Orders", "Wages"):
            guarded.rocketlake("topic", "create", topic)
        guarded.add("alice")
        guarded.rocketlake("acl", "allow", "alice", "Pub", "Topic:Orders")
        yield guarded


def shows(authority: Authority, guarded: Guarded, name: str) -> ClientConfig:
    """A client with a certificate of this name, that signs nothing."""
    file = authority.file(name, authority.issue_client(name))
    return ClientConfig(namesrv=guarded.cluster.namesrv, use_tls=True, tls_config_file=file)


async def send(config: ClientConfig, topic: str) -> None:
    async with Producer("ours", client_config=config) as producer:
        await producer.send(Message(topic, b"x"))


async def test_a_client_is_the_user_that_its_certificate_names(authority: Authority, guarded: Guarded) -> None:
    alice = shows(authority, guarded, "alice")
    await send(alice, "Orders")
    with pytest.raises(RocketLakeError, match=r"lacks .* on Topic:Wages"):
        await send(alice, "Wages")


async def test_a_certificate_of_a_name_that_no_user_has_lets_nobody_in(authority: Authority, guarded: Guarded) -> None:
    with pytest.raises(RocketLakeError, match="names 'mallory', and there is no such user"):
        await send(shows(authority, guarded, "mallory"), "Orders")


async def test_a_client_without_a_certificate_signs(authority: Authority, guarded: Guarded) -> None:
    plain = ClientConfig(namesrv=guarded.cluster.namesrv)
    with pytest.raises(RocketLakeError, match="only signed requests"):
        await send(plain, "Orders")
    await send(guarded.config(guarded.admin), "Orders")


async def test_a_signature_counts_more_than_the_certificate(authority: Authority, guarded: Guarded) -> None:
    alice = shows(authority, guarded, "alice")
    signed = ClientConfig(
        namesrv=alice.namesrv, use_tls=True, tls_config_file=alice.tls_config_file, credentials=guarded.admin
    )
    await send(signed, "Wages")


async def test_a_disabled_user_is_refused_on_a_link_that_it_has(authority: Authority, guarded: Guarded) -> None:
    guarded.add("carol")
    guarded.rocketlake("acl", "allow", "carol", "Pub", "Topic:Orders")
    async with Producer("ours", client_config=shows(authority, guarded, "carol")) as producer:
        await producer.send(Message("Orders", b"x"))
        guarded.rocketlake("acl", "change", "carol", "--disable")
        with pytest.raises(RocketLakeError, match="user carol is disabled"):
            await producer.send(Message("Orders", b"x"))
