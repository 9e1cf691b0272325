"""The commands against a running cluster, each as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.cli.main import main
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


def test_a_topic_is_created_listed_shown_and_deleted(rocketlake: Typed) -> None:
    assert "orders: 4 queues on broker-a" in rocketlake("topic", "create", "orders", "--queues", "4")
    assert "orders" in rocketlake("topic", "list").splitlines()
    rocketlake("produce", "orders", "hello")
    shown = rocketlake("topic", "show", "orders")
    assert "1 message; 4 queues, rw on broker-a" in shown
    assert shown.count("broker-a  ") == 4
    assert "delete topic orders and its 1 message?" in rocketlake("topic", "delete", "orders", given="y\n")
    assert "orders" not in rocketlake("topic", "list").splitlines()


def test_what_rocketmq_makes_for_itself_is_listed_on_request_only(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "mine")
    assert "mine" in rocketlake("topic", "list").splitlines()
    own = {"TBW102", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert not own & {*rocketlake("topic", "list").splitlines()}
    assert own <= {*rocketlake("topic", "list", "--all").splitlines()}
    assert not [name for name in rocketlake("topic", "list").splitlines() if name.startswith("%")]
    rocketlake("group", "reset", "query_spark_start", "--topic", "mine", "--to", "latest", "-y", "--force")
    assert "query_spark_start" in rocketlake("group", "list", "--all")
    assert "query_spark_start" not in rocketlake("group", "list")
    assert "CID_" not in rocketlake("group", "list")
    assert "CID_ONS-HTTP-PROXY" in rocketlake("group", "list", "--all")


def test_what_is_sent_is_what_tail_prints(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "mail", "-q", "1")
    sent = rocketlake("produce", "mail", "привет", "--tag", "T", "--key", "k1 k2", "--header", "a=b=c")
    assert "queue 0, offset 0" in sent
    assert "2 messages stored" in rocketlake("produce", "mail", "-", given="first line\n\nsecond line\n")
    lines = rocketlake("consume", "mail", "--from", "earliest", "--count", "3").splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["привет", "first line", "second line"]
    assert "broker-a/0@0 tag=T key=k1 k2" in lines[0]
    assert rocketlake("consume", "mail", "--from", "earliest", "-c", "1", "--tags", "T", "--bodies") == "привет\n"
    rocketlake("produce", "mail", "x" * 5000, "--tag", "long")
    assert rocketlake("consume", "mail", "--from", "earliest", "-c", "1", "-t", "long", "--bodies") == "x" * 5000 + "\n"


def test_a_groups_lag_is_shown_per_queue_and_in_sum(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    from rocketlake import Consumer, FirstOffset

    rocketlake("topic", "create", "work", "-q", "1")
    rocketlake("produce", "work", "-", given="1\n2\n3\n")

    async def consume_two() -> None:
        async with Consumer("workers", "work", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST) as consumer:
            await consumer.receive()
            await consumer.receive()

    cluster.run(consume_two())
    shown = rocketlake("group", "show", "workers")
    assert "no member is connected" in shown
    assert "lag 1 message" in shown
    (row,) = (line for line in rocketlake("group", "list").splitlines() if line.startswith("workers"))
    assert row.split()[1:] == ["0", "1", "work"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("topic", "show", "nowhere"),
            ("no topic 'nowhere'", "rocketlake topic list", "rocketlake topic create nowhere"),
        ),
        (("topic", "create", "../x"), ("'../x'", "letters, digits")),
        (("group", "show", "nobody"), ("no broker knows group 'nobody'", "group list")),
        (("topic", "list", "-n", "127.0.0.1:1"), ("no name server answers", "rocketlake up")),
        (("topic", "list", "-n", "nonsense"), ("'nonsense'", "host:port")),
        (("topic", "list", "-n", ";"), ("';' is not a name server address", "host:port")),
        (("topic", "list", "-n", "http://127.0.0.1:9876"), ("is not a name server address", "without http://")),
        (("produce", "orders", "x", "-H", "TAGS=c"), ("--header TAGS is a name of RocketMQ's own", "use --tag")),
        (("produce", "orders", "x", "-H", "=c"), ("'=c' is not name=value", "colour=red")),
        (("produce", "SCHEDULE_TOPIC_XXXX", "x"), ("belongs to the broker", "of your own")),
        (("topic", "delete", "nowhere", "-y"), ("no topic 'nowhere'", "rocketlake topic list")),
        (("replay", "nowhere", "--to-topic", "there"), ("no topic 'nowhere'", "rocketlake topic list")),
        (("produce", "orders", "x", "-n", ""), ("option -n is empty", "leave it out")),
        (("consume", "orders", "--tags="), ("option --tags is empty", "leave it out")),
        (("topic", "delete", "TBW102", "-y"), ("'TBW102' belongs to RocketMQ itself", "of your own")),
        (("topic", "show", ""), ("argument 1 is empty", "leave it out")),
        (("consume", "orders", "-t", "a || "), ("'a || '", "TagA || TagB")),
    ],
)
def test_an_error_says_the_cause_and_the_cure(
    rocketlake: Typed,
    words: tuple[str, ...],
    said: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["rocketlake", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (2, 3, 6)
    text = capsys.readouterr().err
    assert text.startswith("error: ")
    assert "cure: " in text
    for words_said in said:
        assert words_said in text


def test_an_unknown_setting_in_a_broker_conf_is_named_with_the_one_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-x\nflushDiskTyp=SYNC_FLUSH\n")
    monkeypatch.setattr("sys.argv", ["rocketlake", "run", "broker", "-c", str(conf)])
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().err
    assert "unknown setting flushDiskTyp" in text
    assert str(conf) in text
    assert "did you mean flushDiskType?" in text
