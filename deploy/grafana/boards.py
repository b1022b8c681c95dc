"""Writes the Grafana boards beside this file: `python deploy/grafana/boards.py`.

A board is a list of rows, and a row a list of panels. Import the JSON files into Grafana and choose a Prometheus that
scrapes the nodes as the job `flotilla`.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

_WIDTH: Final = 24
_HEIGHT: Final = 8
_PROMETHEUS: Final = {"type": "prometheus", "uid": "${prometheus}"}


class Panel(NamedTuple):
    title: str
    #: Of Grafana.
    unit: str
    #: Each with its legend.
    queries: dict[str, str]


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _quantiles(metric: str, selector: str = "") -> dict[str, str]:
    buckets = f"sum by (le) (rate({metric}_bucket{selector}[$__rate_interval]))"
    return {f"p{percent}": f"histogram_quantile({percent / 100}, {buckets})" for percent in (50, 99)}


def _of_groups(metric: str) -> dict[str, str]:
    return {"{{topic}} {{group}}": f"sum by (topic, group) ({metric})"}


def _rate_of_groups(metric: str) -> dict[str, str]:
    return {"{{topic}} {{group}}": _rate(metric, "topic, group")}


def _of_nodes(metric: str) -> dict[str, str]:
    return {"{{instance}}": metric}


def _rate_of_nodes(metric: str) -> dict[str, str]:
    return {"{{instance}}": _rate(metric, "instance")}


BOARDS: Final = {
    "cluster": [
        [
            Panel("Nodes that answer", "short", {"nodes": 'sum(up{job="flotilla"})'}),
            Panel("Replicas by state", "short", {"{{state}}": "sum by (state) (flotilla_replicas)"}),
            Panel(
                "Partitions with too few replicas", "short", {"partitions": "sum(flotilla_under_replicated_partitions)"}
            ),
        ],
        [
            Panel("Messages produced", "ops", {"{{topic}}": _rate("flotilla_messages_produced_total", "topic")}),
            Panel("Messages delivered", "ops", {"{{topic}}": _rate("flotilla_messages_delivered_total", "topic")}),
        ],
        [
            Panel("Time of a produce", "s", _quantiles("flotilla_request_seconds", '{operation="produce"}')),
            Panel("Refused requests", "ops", {"{{code}}": _rate("flotilla_request_errors_total", "code")}),
            Panel("Changes of leaders", "ops", {"{{reason}}": _rate("flotilla_leadership_changes_total", "reason")}),
        ],
        [
            Panel(
                "Entries that a node lacks", "short", {"node {{peer}}": "sum by (peer) (flotilla_raft_replication_lag)"}
            ),
            Panel("Clock against the cluster's time", "s", _of_nodes("flotilla_clock_offset_seconds")),
            Panel(
                "Connected clients",
                "short",
                {"{{instance}} {{endpoint}}": "flotilla_connected_clients"},
            ),
        ],
    ],
    "queues": [
        [
            Panel("Messages behind", "short", _of_groups("flotilla_group_lag_messages")),
            Panel(
                "Age of the oldest", "s", {"{{topic}} {{group}}": "max by (topic, group) (flotilla_group_lag_seconds)"}
            ),
        ],
        [
            Panel("Ready", "short", _of_groups("flotilla_queue_ready")),
            Panel("Leased", "short", _of_groups("flotilla_queue_leased")),
            Panel("Delayed", "short", _of_groups("flotilla_queue_delayed")),
        ],
        [
            Panel("Acknowledged", "ops", _rate_of_groups("flotilla_messages_acked_total")),
            Panel("Delivered again", "ops", {"{{topic}}": _rate("flotilla_messages_redelivered_total", "topic")}),
            Panel("Dead letters", "ops", _rate_of_groups("flotilla_messages_dead_lettered_total")),
        ],
        [
            Panel("Dead, but refused by their topic", "short", _of_groups("flotilla_messages_unburied")),
            Panel("Removed before they were settled", "ops", _rate_of_groups("flotilla_messages_trimmed_total")),
            Panel("Time of a settlement", "s", _quantiles("flotilla_request_seconds", '{operation="settle"}')),
        ],
    ],
    "nodes": [
        [
            Panel("Time of a sync", "s", _quantiles("flotilla_fsync_seconds")),
            Panel("Stored", "bytes", _of_nodes("sum by (instance) (flotilla_log_size_bytes)")),
            Panel("Free on the disk", "bytes", _of_nodes("flotilla_disk_free_bytes")),
        ],
        [
            Panel("Received from clients", "Bps", _rate_of_nodes("flotilla_client_received_bytes_total")),
            Panel("Sent to clients", "Bps", _rate_of_nodes("flotilla_client_sent_bytes_total")),
            Panel("Sent to other nodes", "Bps", _rate_of_nodes("flotilla_peer_sent_bytes_total")),
        ],
        [
            Panel("Processor", "percentunit", _of_nodes("rate(process_cpu_seconds_total[$__rate_interval])")),
            Panel("Memory", "bytes", _of_nodes("process_resident_memory_bytes")),
            Panel("Open files", "short", _of_nodes("process_open_fds")),
        ],
        [
            Panel("Failures of a part", "ops", _rate_of_nodes("flotilla_failures_total")),
            Panel("Failed disk operations", "ops", _rate_of_nodes("flotilla_storage_errors_total")),
            Panel("Longest run of the garbage collector", "s", _of_nodes("flotilla_gc_pause_max_seconds")),
        ],
    ],
}


def board(name: str) -> dict[str, Any]:
    """As Grafana imports it."""
    panels = []
    for row, row_panels in enumerate(BOARDS[name]):
        width = _WIDTH // len(row_panels)
        for column, panel in enumerate(row_panels):
            targets = [
                {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": _PROMETHEUS}
                for at, (legend, query) in enumerate(panel.queries.items())
            ]
            panels.append(
                {
                    "id": len(panels) + 1,
                    "type": "timeseries",
                    "title": panel.title,
                    "datasource": _PROMETHEUS,
                    "gridPos": {"h": _HEIGHT, "w": width, "x": column * width, "y": row * _HEIGHT},
                    "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                    "targets": targets,
                }
            )
    return {
        "uid": f"flotilla-{name}",
        "title": f"Flotilla: {name}",
        "tags": ["flotilla"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "prometheus", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }


def render(name: str) -> str:
    return json.dumps(board(name), indent=1) + "\n"


if __name__ == "__main__":
    for name in BOARDS:
        (Path(__file__).parent / f"{name}.json").write_text(render(name), "utf-8")
