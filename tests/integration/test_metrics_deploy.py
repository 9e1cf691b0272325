"""The files in deploy/: what they ask for is there, and each alert has a page that says what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dashboards import boards
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.standalone import Standalone
from tests.integration.scraped import get

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
APACHES = ROOT / "tests" / "golden" / "metrics.txt"
NAME = re.compile(r"\b(?:rocketmq|rocketlake)_\w+|\bactive_broker_num\b|\bup\b")
OF_HISTOGRAMS = re.compile(r"_(?:bucket|count|sum)$")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def questions(board: str) -> Iterator[str]:
    for panel in json.loads(board)["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def asked(question: str) -> set[str]:
    return {OF_HISTOGRAMS.sub("", name) for name in NAME.findall(re.sub(r'"[^"]*"', "", question))}


def told(page: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))


async def pages(root: Path) -> set[str]:
    """The names of a broker, and of a name server with a controller."""
    settings = {"enableControllerInNamesrv": True, "metricsExporterType": "PROM", "metricsPromExporterPort": 0}
    conf = {"listenPort": 0, "kvConfigPath": root / "n" / "kvConfig.json", **settings}
    async with (
        Standalone(root / "a", metrics_ports=(0, 0)) as cluster,
        NameServer(load_namesrv_conf(overrides=conf)) as n,
    ):
        found = [await get(each.monitor.address, "/metrics") for each in (cluster.broker, n)]
    return set().union(*(told(answer.body.decode()) for answer in found))


async def test_dashboards_and_alerts_ask_for_names_that_are_there(tmp_path: Path) -> None:
    there = await pages(tmp_path) | {"up"}
    for board in boards().values():
        for question in questions(board):
            assert asked(question) and asked(question) <= there, question
    for rule in rules():
        assert asked(rule["expr"]) and asked(rule["expr"]) <= there, rule["alert"]


def test_the_board_for_apache_asks_for_apaches_names() -> None:
    (board,) = [text for path, text in boards().items() if path.stem == "apache"]
    assert set().union(*map(asked, questions(board))) <= told(APACHES.read_text())


def test_the_boards_are_those_of_the_program() -> None:
    stale = [path.name for path, text in boards().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run python -m deploy.dashboards"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_alert_has_a_page_that_says_what_to_do(rule: dict[str, Any]) -> None:
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    assert f"\n## {rule['alert']}\n" in (ROOT / path).read_text()
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert all(rule["expr"].count(a) == rule["expr"].count(b) for a, b in ("()", "{}", "[]"))


def test_promtool_takes_the_rules() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
