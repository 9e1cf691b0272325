"""Dead letters and retries on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake import Consumer, ConsumerConfig, Message, Producer
from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.cli.tree import app
from rocketlake.model.group import GroupConfig
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


def give_up(cluster: EmbeddedCluster, group: str, topic: str, errors: dict[str, str]) -> None:
    """Make a dead letter of group `group` for each body -> last error, in this order."""

    async def work() -> None:
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for body in errors:
                await producer.send(Message(topic, body.encode(), tags="paid", keys=f"k-{body}"), key=1)
        config = ConsumerConfig(concurrency=1)
        async with Consumer(group, topic, namesrv=cluster.namesrv, from_where="first", config=config) as consumer:
            for _ in errors:
                message = await consumer.receive(timeout_ms=30_000)
                assert message is not None
                consumer.later(delay_level=-1, error=errors[message.body.decode()])
            await consumer.receive(timeout_ms=1)

    cluster.run(work())


def read_again(cluster: EmbeddedCluster, group: str, topic: str, count: int) -> list[bytes]:
    async def work() -> list[bytes]:
        async with Consumer(group, topic, namesrv=cluster.namesrv, from_where="first") as consumer:
            found = [await consumer.receive(timeout_ms=30_000) for _ in range(count)]
        return sorted(message.body for message in found if message is not None)

    return cluster.run(work())


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def open_letters(rocketlake: Typed, group: str) -> int:
    return next(row["open"] for row in json.loads(rocketlake("dlq", "list", "-o", "json")) if row["group"] == group)


def settings(cluster: EmbeddedCluster, group: str) -> GroupConfig:
    async def work() -> GroupConfig:
        async with Cluster(cluster.namesrv) as asked:
            (entry,) = (await ClusterGroups(asked).settings(group)).values()
        return entry.to_model()

    return cluster.run(work())


def test_letters_are_shown_with_their_last_error_and_sent_again_by_it(
    rocketlake: Typed, cluster: EmbeddedCluster
) -> None:
    rocketlake("topic", "create", "bills", "-q", "1")
    give_up(cluster, "tellers", "bills", {"a": "no such account", "b": "bank closed", "c": "bank closed"})
    assert [row[:3] for row in rows(rocketlake("dlq", "list")) if row[0] == "tellers"] == [["tellers", "3", "3"]]
    assert rows(rocketlake("dlq", "show", "tellers", "--summary")) == [
        ["bills", "2", "bank", "closed"],
        ["bills", "1", "no", "such", "account"],
    ]
    shown = [json.loads(line) for line in rocketlake("dlq", "show", "tellers", "-o", "json").splitlines()]
    assert [(each["body"], each["last_error"], each["from_topic"], each["tries"]) for each in shown] == [
        ("a", "no such account", "bills", 1), ("b", "bank closed", "bills", 1), ("c", "bank closed", "bills", 1),
    ]  # fmt: skip
    line = rocketlake("dlq", "show", "tellers", "--id", shown[0]["id"])
    assert f"{shown[0]['id']} from bills tag=paid key=k-a tried 1 times: no such account | a" in line

    asked = rocketlake("dlq", "resend", "tellers", "--error", "bank", given="y\n")
    assert "send 2 dead letters to group tellers again?" in asked
    assert "2 dead letters sent again; 3 letters stay open, from the first on that was left" in asked
    assert read_again(cluster, "tellers", "bills", 2) == [b"b", b"c"]
    assert "3 dead letters dropped" in rocketlake("dlq", "drop", "tellers", "-y")
    assert open_letters(rocketlake, "tellers") == 0
    assert rocketlake("dlq", "show", "tellers") == ""
    assert len(rocketlake("dlq", "show", "tellers", "--settled").splitlines()) == 3


def test_a_letter_is_repaired(rocketlake: Typed, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    rocketlake("topic", "create", "repairs", "-q", "1")
    give_up(cluster, "fixers", "repairs", {"seven": "no number"})
    (shown,) = [json.loads(line) for line in rocketlake("dlq", "show", "fixers", "-o", "json").splitlines()]
    (tmp_path / "body").write_bytes(b"7")
    with pytest.raises(UsageError, match="--body repairs one message"):
        rocketlake("dlq", "resend", "fixers", "--body", str(tmp_path / "body"), "-y")
    rocketlake("dlq", "resend", "fixers", "--id", shown["id"], "--body", str(tmp_path / "body"), "-y")
    assert read_again(cluster, "fixers", "repairs", 1) == [b"7"]
    assert open_letters(rocketlake, "fixers") == 0


@pytest.mark.parametrize("words", [("show", "tallers"), ("show", "tallers", "--summary"), ("resend", "tallers", "-y")])
def test_a_misspelt_group_is_told_where_the_groups_are(cluster: EmbeddedCluster, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["dlq", *words, "-n", cluster.namesrv])
    said = "group tallers has no such dead letters; `rocketlake dlq list` shows the groups that have some\n"
    assert (result.exit_code, result.stderr) == (0, said)


def test_a_no_sends_nothing(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "kept", "-q", "1")
    give_up(cluster, "keepers", "kept", {"x": "?"})
    with pytest.raises(AssertionError, match="nothing was changed"):
        rocketlake("dlq", "resend", "keepers", given="n\n")
    assert open_letters(rocketlake, "keepers") == 1


def test_retries_of_a_group_are_altered(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "tried", "-q", "1")
    give_up(cluster, "triers", "tried", {"x": "?"})
    altered = rocketlake("group", "alter", "triers", "--tries", "3", "--pauses", "1s,90s,2h")
    assert altered.strip() == "group triers on broker-a: 3 tries after the first, after 1s, 90s, 2h"
    group = settings(cluster, "triers")
    assert group.retry_max_times == 3
    assert [group.retry_policy.delay_ms(tries) for tries in range(4)] == [1000, 90_000, 7_200_000, 7_200_000]
    assert "after 5s, each pause 3 times the one before, 1h at most" in rocketlake(
        "group", "alter", "triers", "--growing", "5s,3,1h"
    )
    group = settings(cluster, "triers")
    assert [group.retry_policy.delay_ms(tries) for tries in (0, 1, 2, 9)] == [5000, 15_000, 45_000, 3_600_000]
    assert "delay levels" in rocketlake("group", "alter", "triers", "--levels")
    for words in (["--growing", "5s,2"], ["--pauses", "soon"], ["--pauses", "1s", "--levels"], []):
        with pytest.raises(UsageError):
            rocketlake("group", "alter", "triers", *words)
    with pytest.raises(RocketLakeError, match="no broker knows group"):
        rocketlake("group", "alter", "strangers", "--tries", "1")


def test_attributes_of_a_group(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("group", "create", "chat", "-a", "+lite.bind.topic=sessions", "-a", "+lite.sub.client.quota=7")
    assert settings(cluster, "chat").attributes == {"lite.bind.topic": "sessions", "lite.sub.client.quota": "7"}
    rocketlake("group", "alter", "chat", "-a", "+lite.bind.topic=rooms", "-a", "-lite.sub.client.quota")
    assert settings(cluster, "chat").attributes == {"lite.bind.topic": "rooms"}
    rocketlake("group", "alter", "chat", "--tries", "3")
    assert settings(cluster, "chat").attributes == {"lite.bind.topic": "rooms"}
    with pytest.raises(RocketLakeError, match="unknown attribute 'nothing'"):
        rocketlake("group", "alter", "chat", "-a", "+nothing=1")
