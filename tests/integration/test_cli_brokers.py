"""Brokers and their settings on the command line, groups made and deleted there."""

from __future__ import annotations

import json

import pytest

from rocketlake.base.errors import RocketLakeError, UsageError
from tests.integration.conftest import Typed


def test_the_brokers_are_listed(rocketlake: Typed) -> None:
    (broker,) = json.loads(rocketlake("broker", "list", "-o", "json"))
    assert (broker["broker"], broker["id"], broker["trouble"]) == ("broker-a", 0, None)
    assert 0 <= broker["disk_percent"] <= 100
    assert "broker-a" in rocketlake("broker", "list")


def test_the_figures_of_a_broker_are_shown(rocketlake: Typed) -> None:
    shown = json.loads(rocketlake("broker", "show", "broker-a", "-o", "json"))
    assert shown["brokerVersionDesc"].startswith("V5")
    assert "putTps" in rocketlake("broker", "show", "broker-a")
    assert set(json.loads(rocketlake("broker", "show", "broker-a", "--match", "puttps", "-o", "json"))) == {"putTps"}
    with pytest.raises(UsageError, match="no broker broker-z"):
        rocketlake("broker", "show", "broker-z")


def test_settings_are_shown_and_changed(rocketlake: Typed) -> None:
    shown = json.loads(rocketlake("broker", "config", "broker-a", "--match", "autocreate", "-o", "json"))
    assert shown["autoCreateTopicEnable"] == "true"
    done = rocketlake("broker", "config", "broker-a", "--set", "autoCreateTopicEnable=false", "--yes")
    assert "until its next start" in done
    shown = json.loads(rocketlake("broker", "config", "broker-a", "--match", "autoCreateTopic", "-o", "json"))
    assert shown == {"autoCreateTopicEnable": "false"}
    rocketlake("broker", "config", "broker-a", "--set", "autoCreateTopicEnable=true", "--yes")
    with pytest.raises(RocketLakeError, match="storePathRootDir"):
        rocketlake("broker", "config", "broker-a", "--set", "storePathRootDir=/tmp/elsewhere", "--yes")
    with pytest.raises(UsageError, match="is no setting"):
        rocketlake("broker", "config", "broker-a", "--set", "autoCreateTopicEnable")
    with pytest.raises(UsageError, match="no broker broker-z"):
        rocketlake("broker", "config", "broker-z")


def test_a_group_is_made_and_deleted(rocketlake: Typed) -> None:
    assert rocketlake("group", "create", "clerks", "--tries", "3") == "group clerks is on broker-a now\n"
    assert "nothing changed" in rocketlake("group", "create", "clerks")
    assert "3 tries after the first" in rocketlake("group", "alter", "clerks", "--tries", "3")
    assert rocketlake("group", "delete", "clerks", "--yes") == "group clerks deleted from broker-a\n"
    with pytest.raises(RocketLakeError, match="no broker knows group 'clerks'"):
        rocketlake("group", "delete", "clerks", "--yes")
