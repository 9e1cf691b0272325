"""Every command of the tree: its kind is known here, and what that kind must have, it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from rocketlake.cli.tree import app

SERVERS = {"up", "run broker", "run brokers", "run namesrv", "run proxy", "follow", "lake serve"}
READS = {
    "acl explain", "acl show", "acl users", "broker list", "broker show", "cluster show",
    "context list", "context show", "dlq list",
    "dlq show", "group list", "group lites", "group show", "lake files", "lake history", "message get", "message trace",
    "lake info", "pipeline check", "replicas history", "replicas list", "replicas show", "schedule list",
    "spark offsets show", "consume", "top", "topic list", "topic lites", "topic show", "transaction list",
}  # fmt: skip
CHANGES = {
    "acl add", "acl allow", "acl change", "acl deny", "acl import", "bench", "context add", "context use",
    "group alter", "group create", "group mode", "lake compact", "lake create", "pipeline export", "pipeline run",
    "produce", "replay", "store convert", "topic alter", "topic create", "topic spread", "transaction check",
}  # fmt: skip
TAKES_AWAY = {
    "acl forget", "acl remove", "broker config", "context remove", "dlq drop", "dlq resend", "group delete",
    "group reset", "lake clean", "lake expire", "replicas elect", "replicas hand-over", "replicas move",
    "replicas rebuild", "replicas remove", "schedule cancel", "spark offsets set", "takeover", "topic delete",
    "topic purge",
}  # fmt: skip
"""These ask first. So do changes that cannot be undone by the same command."""


def commands(command: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in command.commands.items():
        path = f"{before} {name}".lstrip()
        if hasattr(part, "commands"):
            yield from commands(part, path)
        else:
            yield path, part


ALL = dict(commands(get_command(app)))


def options(path: str) -> set[str]:
    return {name for param in ALL[path].params for name in (*param.opts, *param.secondary_opts)}


def test_each_command_has_one_kind() -> None:
    kinds = [*SERVERS, *READS, *CHANGES, *TAKES_AWAY]
    assert sorted(kinds) == sorted(ALL), "say here which kind a new command is"


@pytest.mark.parametrize("path", sorted(READS | CHANGES | TAKES_AWAY))
def test_a_command_prints_in_all_forms(path: str) -> None:
    (output,) = [param for param in ALL[path].params if "--output" in param.opts]
    assert "-o" in output.opts


@pytest.mark.parametrize("path", sorted(TAKES_AWAY))
def test_what_takes_away_asks_and_can_be_tried(path: str) -> None:
    assert {"--yes", "-y", "--dry-run"} <= options(path)


@pytest.mark.parametrize("path", sorted(READS))
def test_what_reads_asks_nothing(path: str) -> None:
    assert not {"--yes", "--dry-run", "--force"} & options(path)
