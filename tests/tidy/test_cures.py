"""A cure is a thing to do: no range, no reason and no answer of the program stands where the cure is shown."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import java_name, load
from rocketlake.broker.config import BrokerConfig
from rocketlake.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.store.config import StoreConfig

SOURCE = Path(__file__).parents[2] / "src" / "rocketlake"
NO_BEGINNING = re.compile(
    r"(a|an|the|this|these|those|it|its|they|nobody|nothing|more|fewer|another|smaller|larger|each|two|at most|"
    r"at least|between|because|names?|numbers|letters|digits|hours|files|keys|members|tasks|brokers|RocketMQ|allowed)\b"
    r"(?!.*\?)",
    re.IGNORECASE | re.DOTALL,
)
"""How reasons, ranges and bare nouns begin. A question ("is the broker up?") is a thing to do: look."""


def hints() -> Iterator[tuple[str, str]]:
    """Place and text of every hint in the source; what is put in while the program runs stands as {}."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    text = _text(keyword.value) if keyword.arg == "hint" else ""
                    if text:
                        yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in value.values)
    return ""


def test_every_hint_is_a_thing_to_do() -> None:
    found = [*hints()]
    assert len(found) > 200
    wrong = [f"{place}: {text}" for place, text in found if NO_BEGINNING.match(text) and not text.startswith("name ")]
    assert wrong == []


def settings() -> Iterator[Any]:
    for cls in (BrokerConfig, StoreConfig, NameServerConfig, ClientConfig, ProducerConfig, ConsumerConfig):
        for field in dataclasses.fields(cls):
            for bound, beyond in (("low", -1), ("high", 1)):
                value = field.metadata.get(bound)
                if field.init and value is not None and not field.metadata.get("clamped"):
                    yield pytest.param(cls, field, value, value + beyond, id=f"{cls.__name__}.{field.name}-{bound}")


@pytest.mark.parametrize(("cls", "field", "bound", "value"), [*settings()])
def test_a_setting_out_of_range_names_the_range_and_not_its_reason(
    cls: type[Any], field: dataclasses.Field[Any], bound: float, value: float
) -> None:
    with pytest.raises(UsageError, match="is out of range") as refused:
        if hasattr(cls, "name_servers") or cls in (ProducerConfig, ConsumerConfig):
            cls(**{field.name: value})
        else:
            load(cls, overrides={java_name(field): str(value)})
    assert str(bound) in refused.value.hint
    assert refused.value.hint != field.metadata["why"]
