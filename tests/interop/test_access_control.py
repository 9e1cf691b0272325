"""Users and policies, 5.5.0: Apache's clients and its mqadmin on our cluster, our client and commands on Apache's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache import apache_cluster, run_driver
from interop.replicas import mqadmin
from rocketlake import ClientConfig, Message, Producer, PushConsumer
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import RocketLakeError
from rocketlake.model.message import StoredMessage
from tests.interop.our_cluster import our_cluster

pytestmark = pytest.mark.interop

ADMIN = ("root-user", "root-secret-1")
ALICE = ("alice", "alice-secret-1")
BOB = ("bob", "bob-secret-1")


@pytest.fixture(scope="module")
def guarded(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of our cluster that knows users and their policies."""
    first = f'{{"username":"{ADMIN[0]}","password":"{ADMIN[1]}"}}'
    settings = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    with our_cluster(tmp_path_factory.mktemp("guarded"), *settings) as namesrv:
        yield namesrv


@pytest.fixture(scope="module")
def admin_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of mqadmin that signs as the administrator."""
    home = tmp_path_factory.mktemp("admin")
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text(f"accessKey: {ADMIN[0]}\nsecretKey: {ADMIN[1]}\n")
    return home


def test_an_administrator_lets_a_user_send_to_one_topic(guarded: str, admin_home: Path) -> None:
    cluster = ("-n", guarded, "-c", "DefaultCluster")
    shown = mqadmin(
        admin_home,
        ("updateTopic", *cluster, "-t", "Orders"),
        ("createUser", *cluster, "-u", ALICE[0], "-p", ALICE[1]),
        ("createAcl", *cluster, "-s", "User:alice", "-r", "Topic:Orders,Group:alice*", "-a", "Pub,Sub", "-d", "Allow"),
        ("createUser", *cluster, "-u", BOB[0], "-p", BOB[1]),
        ("createAcl", *cluster, "-s", "User:bob", "-r", "Topic:Orders", "-a", "Sub", "-d", "Allow"),
        ("listUser", *cluster),
        ("getAcl", *cluster, "-s", "User:alice"),
    )
    assert all("success" in text for text in shown[:5]), shown
    assert "alice" in shown[5] and not any(secret in shown[5] for secret in (ADMIN[1], ALICE[1], BOB[1]))
    assert "Topic:Orders" in shown[6] and "Pub" in shown[6]
    assert run_driver("Produce", guarded, "Orders", "sync", 20, 50, "A", peer="server550", user=ALICE)["sent"] == 20
    got = run_driver(
        "Consume", guarded, "Orders", "alice_reads", "*", "concurrent", 20, 30, 0, peer="server550", user=ALICE
    )
    assert (got["distinct"], got["duplicates"]) == (20, 0)
    for user, topic, why in (
        (None, "Orders", "No route info"),
        (("alice", "wrong-secret-1"), "Orders", "No route info"),
        (ALICE, "Payments", "CODE: 16"),
        (BOB, "Orders", "user bob from 127.0.0.1 lacks Pub on Topic:Orders"),
    ):
        with pytest.raises(RuntimeError, match=why):
            run_driver("Produce", guarded, topic, "sync", 1, 50, "A", peer="server550", user=user)


PROVIDERS = "org.apache.rocketmq.auth"


async def test_our_client_and_command_line_on_apaches_broker_with_users(apache_jars: None, tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{ADMIN[0]}","password":"{ADMIN[1]}"}}',
        "innerClientAuthenticationCredentials": f'{{"accessKey":"{ADMIN[0]}","secretKey":"{ADMIN[1]}"}}',
        "authorizationEnabled": "true",
        "authorizationProvider": f"{PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    }
    with apache_cluster(tmp_path / "apache", settings=settings, peer="server550") as apache:
        password = tmp_path / "alice.secret"
        password.write_text(ALICE[1])
        admin = tmp_path / "admin.yml"
        admin.write_text(f"accessKey: {ADMIN[0]}\nsecretKey: {ADMIN[1]}\n")

        def rocketlake(*words: str) -> str:
            command = [sys.executable, "-m", "rocketlake", "--credentials", str(admin), *words, "-n", apache.namesrv]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        rocketlake("topic", "create", "Orders")
        rocketlake("acl", "add", ALICE[0], "--password-file", str(password))
        rocketlake("acl", "allow", ALICE[0], "Pub,Sub", "Topic:Orders")
        rocketlake("acl", "allow", ALICE[0], "Sub", "Group:alice*")
        assert "Group:alice*" in rocketlake("acl", "show", ALICE[0])
        config = ClientConfig(namesrv=apache.namesrv, credentials=Credentials(*ALICE))
        async with Producer("ours", client_config=config) as producer:
            for number in range(20):
                await producer.send(Message("Orders", b"%d" % number))
        got: set[bytes] = set()
        done = asyncio.Event()

        def take(messages: list[StoredMessage]) -> None:
            got.update(message.body for message in messages)
            if len(got) == 20:
                done.set()

        consumer = PushConsumer("alice_reads", client_config=config, listener=take, from_where="first")
        consumer.subscribe("Orders")
        async with consumer:
            await asyncio.wait_for(done.wait(), 60)
        stranger = ClientConfig(namesrv=apache.namesrv, credentials=Credentials(ALICE[0], "wrong-secret"))
        async with Producer("ours", client_config=stranger) as producer:
            with pytest.raises(RocketLakeError, match="NO_PERMISSION"):
                await producer.send(Message("Orders", b"x"))
