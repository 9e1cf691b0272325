"""A cure is a thing to do: no range, no reason and no answer of the program stands where the cure is shown."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import java_name, load
from rocketlake.broker.config import BrokerConfig
from rocketlake.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.store.config import StoreConfig
from tests.tidy.tree import functions, named, parsed, sources

NO_BEGINNING = re.compile(
    r"(a|an|the|this|these|those|it|its|they|nobody|nothing|more|fewer|another|smaller|larger|each|two|at most|"
    r"at least|between|because|one of|known|columns:|partition columns|core,|from \{|true or|names?|numbers|letters|"
    r"digits|hours|files|keys|members|tasks|brokers|RocketMQ|allowed)(?!\w)"
    r"(?!.*\?)",
    re.IGNORECASE | re.DOTALL,
)
"""How reasons, ranges and bare nouns begin. A question ("is the broker up?") is a thing to do: look."""


def hints() -> Iterator[tuple[str, str]]:
    """Place and text of every hint in the source, also those made through helpers and tables of the same file.

    What is put in while the program runs stands as {}.
    """
    for path in sources(".py"):
        tree = parsed(path)
        places = dict(_places(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                values = [keyword.value for keyword in node.keywords if keyword.arg in ("hint", "cure")]
                at = places.get(ast.unparse(node.func).rpartition(".")[2], len(node.args))
                for value in (*values, *node.args[at : at + 1]):
                    for text in _texts(value, tree):
                        if text:
                            yield f"{named(path)}:{node.lineno}", text


def _places(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions and classes of a file that take a hint -> where it stands among the arguments of a call."""
    for name, function in functions(tree):
        arguments = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        for hint in {"hint", "cure"} & {*arguments}:
            owner, _, last = name.rpartition(".")
            yield (owner.rpartition(".")[2] if last == "__init__" else last), arguments.index(hint)


def _texts(value: ast.expr, tree: ast.Module) -> Iterator[str]:
    """Every text that this can be: both branches of a condition, all values of a table of the file."""
    match value:
        case ast.IfExp():
            yield from (*_texts(value.body, tree), *_texts(value.orelse, tree))
        case ast.BoolOp():
            yield from (text for each in value.values for text in _texts(each, tree))
        case ast.BinOp(op=ast.Add()):
            for left in _texts(value.left, tree):
                yield left + next(_texts(value.right, tree), "{}")
        case ast.Name() | ast.Subscript(value=ast.Name()) | ast.Call(func=ast.Attribute(value=ast.Name(), attr="get")):
            yield from _of_table(value, tree)
        case ast.Call(func=ast.Name(id=name)):
            found = [function for each, function in functions(tree) if each == name]
            returned = [node.value for each in found for node in ast.walk(each) if isinstance(node, ast.Return)]
            yield from (
                text for each in returned if each and not isinstance(each, ast.Name) for text in _texts(each, tree)
            )
        case _:
            yield _text(value)


def _of_table(value: ast.Name | ast.Subscript | ast.Call, tree: ast.Module) -> Iterator[str]:
    """The constant of the file with this name, or the values of that table."""
    name = next(node.id for node in ast.walk(value) if isinstance(node, ast.Name))
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and node.value is not None:
            inside = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            yield from (_text(each) for each in inside)


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in value.values)
    return ""


def test_every_hint_is_a_thing_to_do() -> None:
    found = [*hints()]
    assert len(found) > 300
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
