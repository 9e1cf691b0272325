"""Owns what a test reads of a server's pages: its metrics by Prometheus' own parser."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from rocketlake.net.http.link import HttpAnswer, HttpLink
from rocketlake.net.network import TcpNetwork

__all__ = ["Scrape", "get", "scrape"]


@dataclass(frozen=True)
class Scrape:
    """The samples of one answer."""

    samples: dict[str, list[tuple[dict[str, str], float]]]
    """By the name of the sample."""

    def value(self, name: str, **labels: str) -> float:
        """Of the one sample that has these labels."""
        (found,) = [
            value for has, value in self.samples.get(name, []) if all(has.get(key) == labels[key] for key in labels)
        ]
        return found

    def labels(self, name: str) -> set[str]:
        """The names of the labels of a sample's first line."""
        return set(self.samples[name][0][0])


async def get(address: str, path: str) -> HttpAnswer:
    """One page."""
    host, _, port = address.rpartition(":")
    link = await TcpNetwork().connect(lambda: HttpLink(host), host, int(port))
    assert isinstance(link, HttpLink)
    try:
        return await link.ask(path, None, {})
    finally:
        link.close()


async def scrape(address: str) -> Scrape:
    """The metrics of a server."""
    answer = await get(address, "/metrics")
    assert answer.status == 200
    return parse(answer.body.decode())


def parse(text: str) -> Scrape:
    """The samples in a text of Prometheus' format; ValueError if it is not in that format."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        assert family.type != "unknown", family.name
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return Scrape(samples)
