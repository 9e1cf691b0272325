"""Owns the targets that read texts of people: settings, pipelines, accounts, ACL imports, SQL92 filters, saved tables.

Each is read, or refused by an error of ours that says where.
Must not know   servers.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from rocketlake.auth.account_text import accounts_text, parse_accounts
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.base.java.json_text import JsonError, parse
from rocketlake.base.settings.config_file import parse_properties, to_properties
from rocketlake.broker.config import load_broker_conf
from rocketlake.cli.acl_import import read_plain_acl
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.replication.epochs import epoch_file
from rocketlake.spark.pipeline.read import read_pipeline
from tests.fuzz.bytes_drawn import damaged
from tests.fuzz.target import Target
from tests.fuzz.wire_targets import GOLDEN, alike
from tests.sql92_cases import NOISE, random_expression, random_message

ROOT = Path(__file__).parents[2]
_CONF = [
    b"brokerName=a\nlistenPort = 10911\\\n  \nflushDiskType:SYNC_FLUSH\n# c\nnamesrvAddr=a:1;b:2\nbrokerId=0\n",
    b"storePathRootDir=/s\nmessageDelayLevel=1s 5s 1h\nfileReservedTime=72\ndeleteWhen=04\nbrokerPermission=6\n",
    b"listenPort=9876\nkvConfigPath=/n/kv.json\nenableController=true\ncontrollerDLegerSelfId=n0\n\\u00e9=\\uZZZZ\n",
]
_ACCOUNTS = [
    json.dumps(
        {
            "users": [{"username": "a", "password": "p", "userType": "Super", "userStatus": "enable"}],
            "acls": [
                {
                    "subject": "User:a",
                    "policies": [
                        {
                            "policyType": "Custom",
                            "entries": [
                                {
                                    "resource": "Topic:T*",
                                    "actions": ["Pub"],
                                    "sourceIps": ["10.0.0.0/8"],
                                    "decision": "Allow",
                                }
                            ],
                        }
                    ],
                }
            ],
        }
    ).encode()
]
_PLAIN_ACL = [
    b"globalWhiteRemoteAddresses:\n- 10.0.0.*\naccounts:\n- accessKey: a\n  secretKey: b\n  admin: false\n"
    b"  defaultTopicPerm: DENY\n  topicPerms:\n  - t=PUB|SUB\n  - u=ANY\n  groupPerms: [g=SUB]\n",
    b"accounts: &a [{accessKey: x, secretKey: y, whiteRemoteAddress: '*', admin: true}]\nb: *a\n",
]
_TABLES = [path.read_bytes()[:2000] for path in sorted((GOLDEN / "stores").rglob("config/*.json"))]
_PIPELINES = [path.read_bytes() for path in sorted(ROOT.glob("docs/pipelines/*.yaml"))]


def _settings(text: bytes) -> None:
    read = parse_properties(text.decode("utf-8", "replace"))
    assert parse_properties(to_properties(read)) == {key: value.strip() for key, value in read.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.conf")
        path.write_bytes(text)
        for load in (load_broker_conf, load_namesrv_conf):
            with contextlib.suppress(UsageError):
                assert load(path)


def _accounts(text: bytes) -> None:
    with contextlib.suppress(UsageError):
        users, acls = parse_accounts(text.decode("utf-8", "replace"))
        assert parse_accounts(accounts_text(users.values(), acls)) == (users, acls)


def _acl_import(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plain_acl.yml")
        path.write_bytes(text)
        with contextlib.suppress(UsageError):
            assert all(user.username for user in read_plain_acl(path).users)


def _pipeline(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.yaml")
        path.write_bytes(text)
        with contextlib.suppress(UsageError):
            assert read_pipeline(path).name


def _sql(case: tuple[int, list[tuple[int, int]]]) -> None:
    drawn, noise = case
    random = Random(drawn)
    text, message = random_expression(random), random_message(random)
    for at, which in noise:
        at %= len(text) + 1
        text = text[:at] + NOISE[which % len(NOISE)] + text[at + which % 3 :]
    with contextlib.suppress(UsageError):
        expression = parse_sql92(text)
        for function in ("decide", "evaluate", "matches"):
            alike("filter.sql_evaluate", lambda form, called=function: getattr(form, called)(expression, message))


def _sql_text(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_sql92(text).text == text


def _table(text: bytes) -> None:
    with contextlib.suppress(JsonError):
        parse(text)
    disk = MemoryFiles()
    disk.write_bytes(Path("/a"), text)
    with contextlib.suppress(RocketLakeError):
        assert epoch_file.load(disk, Path("/a")) is not None


TARGETS = [
    Target("settings", damaged(_CONF), _settings, 150),
    Target("accounts", damaged(_ACCOUNTS), _accounts, 250),
    Target("acl-import", damaged(_PLAIN_ACL), _acl_import, 150),
    Target("pipeline", damaged(_PIPELINES), _pipeline, 60),
    Target(
        "sql92",
        st.tuples(st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3)),
        _sql,
        250,
    ),
    Target(
        "sql92-text",
        st.text(
            st.sampled_from("()'ab=<>!-+.0159eE \n\"/*%_$\x00é") | st.characters(exclude_categories=["Cs"]), max_size=60
        ),
        _sql_text,
        250,
    ),
    Target("saved-tables", damaged([*_TABLES, (GOLDEN / "auto_switch/epochFileCheckpoint").read_bytes()]), _table, 250),
]
