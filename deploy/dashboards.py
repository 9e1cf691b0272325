"""`python -m deploy.dashboards`: writes the dashboards in deploy/grafana.

Owns        the panels and their questions to Prometheus.
Must not know   the servers.

`apache` asks for names only that Apache's broker has too: it draws a cluster of either.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "grafana"
WIDTH = 24
HEIGHT = 8


class Panel(NamedTuple):
    """One chart or number."""

    title: str
    asks: dict[str, str]
    """Legend -> question."""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12


def rate(name: str, by: str, **labels: str) -> str:
    """The rate of a counter, summed by these labels."""
    chosen = ",".join(f"{key}{value}" for key, value in labels.items())
    return f"sum by ({by}) (rate({name}{{{chosen}}}[$__rate_interval]))"


def percentile(share: float, name: str, by: str = "node_id") -> str:
    """A percentile of a histogram."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({name}_bucket[$__rate_interval])))"


def number(title: str, ask: str, unit: str = "short") -> Panel:
    """A panel that shows one number."""
    return Panel(title, {"": ask}, unit, "stat", 4)


def percentiles(title: str, name: str) -> Panel:
    """A panel of three percentiles of a histogram of seconds."""
    return Panel(
        title, {f"p{share * 100:g} {{{{node_id}}}}": percentile(share, name) for share in (0.5, 0.99, 0.999)}, "s"
    )


NOT_SYSTEM = {"is_system": '="false"'}
IN = rate("rocketmq_messages_in_total", "node_id", **NOT_SYSTEM)
OUT = rate("rocketmq_messages_out_total", "node_id", **NOT_SYSTEM)

OVERVIEW = [
    number("Servers that answer", 'sum(up{job="rocketlake"})'),
    number("Messages in / s", f"sum({IN})"),
    number("Messages out / s", f"sum({OUT})"),
    number("Oldest unread", "max(rocketlake_group_lag_seconds)", "s"),
    number("Refused / min", "60 * sum(rate(rocketlake_busy_total[5m]))"),
    number("Fullest disk", "max(1 - rocketlake_disk_free_bytes / rocketlake_disk_total_bytes)", "percentunit"),
    Panel("Messages in", {"{{node_id}}": IN}),
    Panel("Messages out", {"{{node_id}}": OUT}),
    Panel("Groups that are furthest behind", {
        "{{consumer_group}} {{topic}}": "topk(10, max by (consumer_group, topic) (rocketlake_group_lag_seconds))",
    }, "s"),
    Panel("Parts that do not work", {"{{node_id}}": "rocketlake_troubles"}),
]  # fmt: skip
BROKER = [
    percentiles("Time until a message may be acknowledged", "rocketlake_put_seconds"),
    percentiles("Flushes of the log", "rocketlake_flush_seconds"),
    percentiles("Delay of the event loop", "rocketlake_loop_lag_seconds"),
    Panel("Requests refused, by cause", {"{{node_id}} {{cause}}": rate("rocketlake_busy_total", "node_id, cause")}),
    Panel("Bytes in", {"{{node_id}}": rate("rocketmq_throughput_in_total", "node_id")}, "Bps"),
    Panel("Bytes out", {"{{node_id}}": rate("rocketmq_throughput_out_total", "node_id")}, "Bps"),
    Panel("Not on disk yet", {"{{node_id}}": "rocketmq_storage_flush_behind_bytes"}, "bytes"),
    Panel("Free disk", {"{{node_id}}": "rocketlake_disk_free_bytes"}, "bytes"),
    Panel("Pulls that wait", {"{{node_id}}": "rocketlake_held_pulls"}),
    Panel("Messages for a time that wait", {
        "{{node_id}}": "rocketlake_timer_messages",
        "{{node_id}} levels": "sum by (node_id) (rocketlake_delayed_messages)",
    }),
    Panel("Open half messages", {"{{node_id}}": "rocketlake_half_messages"}),
    Panel("CPU", {"{{node_id}}": "rate(rocketlake_process_cpu_seconds_total[$__rate_interval])"}, "percentunit"),
    Panel("Memory", {"{{node_id}}": "rocketlake_process_resident_memory_bytes"}, "bytes"),
    Panel("Work of a scrape", {"{{node_id}}": "rocketlake_metrics_scrape_seconds"}, "s"),
]  # fmt: skip
BY_GROUP = "consumer_group, topic"
GROUPS = [
    Panel("Age of the oldest message not committed", {
        "{{consumer_group}} {{topic}}": f"max by ({BY_GROUP}) (rocketlake_group_lag_seconds)",
    }, "s"),
    Panel("Messages not committed", {
        "{{consumer_group}} {{topic}}": f"sum by ({BY_GROUP}) (rocketmq_consumer_lag_messages)",
    }),
    Panel("Handed out, not committed", {
        "{{consumer_group}} {{topic}}": f"sum by ({BY_GROUP}) (rocketmq_consumer_inflight_messages)",
    }),
    Panel("Age of the oldest message handed out, not committed", {
        "{{consumer_group}} {{topic}}": f"max by ({BY_GROUP}) (rocketlake_group_oldest_unacked_seconds)",
    }, "s"),
    Panel("Messages out", {"{{consumer_group}} {{topic}}": rate("rocketmq_messages_out_total", BY_GROUP)}),
    Panel("Consumers", {"{{consumer_group}}": "sum by (consumer_group) (rocketmq_consumer_connections)"}),
    Panel("Sent back", {"{{consumer_group}}": rate("rocketlake_retry_messages_total", "consumer_group")}),
    Panel("Dead letters", {"{{consumer_group}}": rate("rocketmq_send_to_dlq_messages_total", "consumer_group")}),
]  # fmt: skip
REPLICAS = [
    Panel("Brokers with an id", {"{{broker_set}}": "max by (broker_set) (rocketlake_group_members_known)"}),
    Panel("Brokers in step", {"{{broker_set}}": "max by (broker_set) (rocketlake_in_sync_replicas)"}),
    Panel("Brokers that live", {"{{broker_set}}": "max by (broker_set) (active_broker_num)"}),
    Panel("Epoch", {"{{broker_set}}": "max by (broker_set) (rocketlake_epoch)"}),
    Panel("Bytes that a replica lacks", {"{{node_id}} {{replica}}": "rocketlake_replica_lag_bytes"}, "bytes"),
    percentiles("Time until a replica reports", "rocketlake_replica_ack_seconds"),
    Panel("Changes of masters", {"{{node_id}}": "increase(rocketlake_switches_total[$__rate_interval])"}),
    Panel("The register answers", {"{{node_id}}": "rocketlake_register_answers"}),
]
APACHE = [
    Panel("Messages in", {"{{node_id}}": IN}),
    Panel("Messages out", {"{{node_id}}": OUT}),
    Panel("Lag in messages", {
        "{{consumer_group}} {{topic}}": f"sum by ({BY_GROUP}) (rocketmq_consumer_lag_messages)",
    }),
    Panel("Lag in time", {
        "{{consumer_group}} {{topic}}": f"max by ({BY_GROUP}) (rocketmq_consumer_lag_latency_milliseconds)",
    }, "ms"),
    Panel("Ready messages", {
        "{{consumer_group}} {{topic}}": f"sum by ({BY_GROUP}) (rocketmq_consumer_ready_messages)",
    }),
    Panel("Messages in flight", {
        "{{consumer_group}} {{topic}}": f"sum by ({BY_GROUP}) (rocketmq_consumer_inflight_messages)",
    }),
    Panel("Producers", {"{{language}} {{version}}": "sum by (language, version) (rocketmq_producer_connections)"}),
    Panel("Consumers", {"{{consumer_group}}": "sum by (consumer_group) (rocketmq_consumer_connections)"}),
    Panel("Requests that wait", {"{{node_id}} {{processor}}": "rocketmq_processor_watermark"}),
    Panel("Used disk", {"{{node_id}}": "rocketmq_storage_size_bytes"}, "bytes"),
    Panel("Age of the oldest message", {"{{node_id}}": "rocketmq_storage_message_reserve_time_milliseconds"}, "ms"),
    Panel("Topics and groups", {
        "topics": "max(rocketmq_topic_number)", "groups": "max(rocketmq_consumer_group_number)",
    }),
]  # fmt: skip
BOARDS = {
    "overview": ("RocketLake: overview", OVERVIEW),
    "broker": ("RocketLake: brokers", BROKER),
    "groups": ("RocketLake: consumer groups", GROUPS),
    "replicas": ("RocketLake: replicas and controllers", REPLICAS),
    "apache": ("RocketMQ: names of Apache's broker", APACHE),
}


def boards() -> dict[Path, str]:
    """The text of each file."""
    return {FOLDER / f"{name}.json": _text(name, title, panels) for name, (title, panels) in BOARDS.items()}


def _text(name: str, title: str, panels: list[Panel]) -> str:
    source = {"type": "prometheus", "uid": "${source}"}
    board: dict[str, Any] = {
        "uid": f"rocketlake-{name}",
        "title": title,
        "tags": ["rocketlake"],
        "schemaVersion": 39,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [],
    }
    x = y = row = 0
    for number_of, panel in enumerate(panels, 1):
        height = HEIGHT // 2 if panel.kind == "stat" else HEIGHT
        if x + panel.width > WIDTH:
            x, y = 0, y + row
        board["panels"].append(
            {
                "id": number_of,
                "type": panel.kind,
                "title": panel.title,
                "datasource": source,
                "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + at), "datasource": source, "expr": ask, "legendFormat": legend}
                    for at, (legend, ask) in enumerate(panel.asks.items())
                ],
            }
        )
        x, row = x + panel.width, max(height, row if x else 0)
    return json.dumps(board, indent=1) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in boards().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
