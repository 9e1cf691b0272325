"""Accounts of etcd: a token is got when it is needed, again when it is refused, and once for many requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.controller.etcd.cluster import EtcdError
from rocketlake.controller.etcd.settings import EtcdSettings, read_addresses, tls_context
from rocketlake.controller.registers.register import ABSENT, Swapped
from tests.unit.controller.etcd.scripted import SILENT, Says, World, play


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return path


def test_one_token_serves_many_requests(password: Path) -> None:
    async def story(world: World) -> None:
        world.a.token = "?"
        for _ in range(3):
            await world.register.read("")
        assert world.a.asked == ["/v3/auth/authenticate"] + ["/v3/kv/range"] * 3

    play(story, user="rocketlake", password_file=password)


def test_a_refused_token_is_replaced_and_the_swap_is_made_once(password: Path) -> None:
    async def story(world: World) -> None:
        world.a.token = "?"
        await world.register.read("")
        world.a.token = "another"
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        assert world.a.asked[2:] == ["/v3/kv/txn", "/v3/auth/authenticate", "/v3/kv/txn"]

    play(story, user="rocketlake", password_file=password)


def test_a_code_of_etcd_that_hides_an_old_token_is_known(password: Path) -> None:
    async def story(world: World) -> None:
        world.a.token = "?"
        await world.register.read("")
        world.a.script.append(Says(3, "etcdserver: revision of auth store is old", 400))
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        assert world.a.log_ins == 2

    play(story, user="rocketlake", password_file=password)


def test_accounts_may_be_enabled_later(password: Path) -> None:
    async def story(world: World) -> None:
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        assert await world.register.swap("a", 2, b"2") == Swapped(3)
        world.a.token = "?"
        assert await world.register.swap("a", 3, b"3") == Swapped(4)
        assert world.a.log_ins == 1

    play(story, user="rocketlake", password_file=password)


def test_a_wrong_password_is_said_at_once(password: Path) -> None:
    async def story(world: World) -> None:
        world.a.token = "?"
        world.a.to_log_in = Says(3, "etcdserver: authentication failed, invalid user ID or password", 400)
        with pytest.raises(EtcdError, match=r"authentication failed.*controllerEtcdUser") as error:
            await world.register.swap("a", ABSENT, b"1")
        assert not error.value.in_doubt

    play(story, user="rocketlake", password_file=password)


def test_a_register_without_an_account_says_which_settings_it_needs() -> None:
    async def story(world: World) -> None:
        world.a.token = "?"
        with pytest.raises(EtcdError, match=r"user name is empty.*controllerEtcdPasswordFile"):
            await world.register.swap("a", ABSENT, b"1")

    play(story)


def test_a_member_that_gives_no_token_is_left_for_another(password: Path) -> None:
    async def story(world: World) -> None:
        world.a.to_log_in = SILENT
        world.peers[1].token = "?"
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        assert world.clock.monotonic() == pytest.approx(1.5, abs=0.01)

    play(story, user="rocketlake", password_file=password)


def test_a_password_that_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="let controllerEtcdPasswordFile name a text file"):
        World(None, user="rocketlake", password_file=tmp_path / "none")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="set controllerEtcdPasswordFile"):
        World(None, user="rocketlake")  # type: ignore[arg-type]


def test_addresses_name_every_member() -> None:
    assert read_addresses("http://a:2379; http://b,http://[::1]:2380/") == [("a", 2379), ("b", 2379), ("::1", 2380)]


@pytest.mark.parametrize("text", ["", " ; ", "a:2379", "http://a:x", "ftp://a", "https://a;http://b", "http://a/v3"])
def test_addresses_that_cannot_be_used_have_a_cure(text: str) -> None:
    with pytest.raises(UsageError, match="set controllerEtcdAddresses"):
        read_addresses(text)


def test_certificates_that_cannot_be_used_have_a_cure(tmp_path: Path) -> None:
    assert tls_context(EtcdSettings("http://a", ca_file=tmp_path)) is None
    with pytest.raises(UsageError, match="name PEM files"):
        tls_context(EtcdSettings("https://a", ca_file=tmp_path / "none"))
