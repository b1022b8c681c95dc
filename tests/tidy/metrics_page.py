"""The reference page of metrics, generated from the table: `REWRITE=1 pytest tests/tidy/test_metrics_docs.py`."""

from flotilla.client.handler_metrics import FAMILIES, LABELS
from flotilla.raft.reasons import NAMES
from flotilla.raft.roles import ROLE_NAMES
from flotilla.runtime.observability.metrics import ALL_METRICS, STATE_DAMAGED, Metric
from flotilla.types.operations import OPERATIONS

PATH = "docs/reference/metrics.md"

_HEAD = """\
# Health and metrics

Every node serves three pages over HTTP, at `http_listen` (port 7680 by default). Requests have no body and no query; \
answers must not be cached.

| path | question | answer |
| --- | --- | --- |
| `/health` | does the node work? | 200 and JSON, or 503 while its disk fails |
| `/ready` | should requests be sent here? | 200, or 503 with the reasons |
| `/metrics` | what does it measure? | 200 and the text format of Prometheus, version 0.0.4 |

## Health

`storage` is `ok`, or the [error](errors.md) that keeps the node from writing: `DISK_FULL` or `STORAGE_FAILED`. \
Meanwhile the node leads nothing and acknowledges nothing; it retries and continues when the disk works again. A \
restart does not help against a full disk. \
`failed` lists the replicas that met an unexpected error and are out of operation until the node starts again; its \
log has the error. `stalled` lists the replicas whose disk has not returned a read for 3 seconds; requests that need \
old messages of them are refused with `UNAVAILABLE`, and leadership moves to a replica that is not behind. \
`damaged` lists the replicas whose log is damaged and being repaired from \
other replicas, each with `topic`, `partition` and the `ranges` of indexes.

```json
{
  "status": "ok",
  "storage": "ok",
  "storage_message": "",
  "background": "ok",
  "background_message": "",
  "failed": [],
  "stalled": [],
  "damaged": [],
  "node": 1,
  "cluster": "flotilla",
  "cluster_id": "9f86d081884c7d659a2feaa0c55ad015",
  "version": "0.2.0.dev0",
  "uptime_seconds": 12.345,
  "replicas": 4,
  "leading": 2
}
```

## Readiness

```json
{
  "ready": false,
  "reasons": [{"code": "NO_LEADER", "message": "1 of 4 replicas know no leader: orders/0"}],
  "warnings": [{
    "code": "UNDER_REPLICATED",
    "message": "1 partition under-replicated, with fewer replicas than the topic asks for: tasks/0",
    "node": 0,
    "partitions": ["tasks/0"]
  }]
}
```

| code | the node is not ready because |
| --- | --- |
| `STOPPING` | it is stopping |
| `DISK_FULL`, `STORAGE_FAILED` | its disk refuses to write |
| `NO_CLUSTER` | it is not part of a cluster, or the cluster is not initialised |
| `NO_METADATA_LEADER` | it knows no leader of the cluster's metadata |
| `NOT_REGISTERED` | the cluster has not registered this start of it as a broker yet |
| `FAILED` | some of its replicas met an unexpected error; they are out of operation until the node starts again |
| `DAMAGED` | some of its replicas repair their log |
| `STALLED` | some of its replicas wait for a read that their disk has not returned within 3 seconds |
| `NO_LEADER` | some of its replicas know no leader |

### Warnings

A node that is ready serves, but may have something to report. It warns of the partitions that it leads, and of \
its own disk and clock; `flotilla cluster status` shows the warnings of all nodes.

| code | what is wrong | what happens |
| --- | --- | --- |
| `UNDER_REPLICATED` | a partition has fewer replicas than its topic asks for | the missing ones are added on brokers \
that are up; the exit code of `cluster status` is 4 until then |
| `REPLICAS_TOGETHER` | replicas of a partition share a `machine` or a `zone`, although there are enough of them \
| `flotilla topic rebalance` moves them apart |
| `LABELS_TOO_FEW` | replicas of a partition share a `machine` or a `zone`, because there are two or more of them, but \
fewer than replicas | nothing; [add nodes](../capacity.md#several-nodes-on-one-machine) on other machines and in other \
zones |
| `ONE_PLACE` | nothing, if that is meant: all nodes are on one `machine` or in one `zone` | the controller says it \
once |
| `REPLICA_DOWN` | the node of a replica cannot be reached | the replica catches up when the node is back |
| `REPLICA_BEHIND` | a replica lacks entries, or is new and learns | it catches up |
| `REPLICA_FORGETFUL` | a replica lost entries that it had acknowledged: check its disk | it learns them again and \
then has a vote again; the exit code of `cluster status` is 4 until then |
| `DISK_STALLED` | the disk of this node does not return a read of these partitions within 3 s, led here or \
not; the files are named | leadership goes to a replica that lacks nothing; `/ready` lists \
them as `STALLED` |
| `DISK_LOW` | the disk of this node has less room than `disk_warn_free` | nothing yet; make room or add some |
| `DISK_REFUSES` | the disk of this node has less room than `disk_refuse_free` | the node refuses new messages for the \
partitions that it leads with `DISK_FULL`, and accepts them again when there is room; acknowledgements, trims and \
deletions go on |
| `TIMING_DIFFERS` | nodes have different values of `election_timeout_ms`, as while it is changed; the controller \
names them | after a change of leaders, queue groups wait for the longest one; until the values are alike, a leader \
that was paused may answer one stale read |
| `RETENTION_HELD` | for a minute or longer, groups have kept messages that are beyond the retention of their topic \
| the log grows until they settle them, or up to `retention_bytes_hard`; work for such a group, \
[move or delete it](../queues.md#how-long-messages-stay) |
| `UPGRADE_POSSIBLE` | nothing: all nodes support a later version of the cluster \
| `flotilla cluster upgrade` raises it, when [no node has to go back](../upgrades.md) |
| `INSECURE` | other machines can connect to the node, and nothing asks who they are \
| the node serves everybody; keep it in a network of its own |
"""

_METRICS = """\
## Metrics

Times are in seconds and sizes in bytes. Counters begin at zero when the process starts, and every node counts its own \
work: sum over nodes for the cluster. Metrics of a partition have the labels `topic` and `partition`; the cluster's \
metadata has the topic `__metadata`. The counters of a topic are removed with it.
"""

_TAIL = """\
## Values of labels

`flotilla_raft_state` is the number of a role:

{states}

`reason` of a leadership that began or ended is one of: {reasons} The log lines `leads` and `leads no longer` have it too.

`operation` is one of:

{operations}

## Useful queries

| question | query |
| --- | --- |
| records per second, by topic | `sum by (topic) (rate(flotilla_messages_produced_total[1m]))` |
| p99 of produce requests | `histogram_quantile(0.99, sum by (le) (rate(flotilla_request_seconds_bucket{{operation="produce"}}[5m])))` |
| p99 of disk syncs | `histogram_quantile(0.99, sum by (le) (rate(flotilla_fsync_seconds_bucket[5m])))` |
| partitions without a leader anywhere | `max by (topic, partition) (flotilla_raft_state) < 4` |
| leaders that changed, and why | `sum by (reason) (increase(flotilla_leadership_changes_total{{event="began"}}[10m]))` |
| partitions with too few replicas | `sum(flotilla_under_replicated_partitions) > 0` |
| followers that lag | `max by (topic, partition, peer) (flotilla_raft_replication_lag) > 10000` |
| share of time in garbage collection | `rate(flotilla_gc_pause_seconds_sum[5m])` |
| nodes that cannot write | `flotilla_storage_ok == 0` |
"""  # noqa: E501 - a row of a table is one line


_TABLE_HEAD = "### {name}\n\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n"


def render() -> str:
    sections = [_section(name) for name in dict.fromkeys(metric.section for metric in ALL_METRICS)]
    states = {STATE_DAMAGED: "damaged", **ROLE_NAMES}
    tail = _TAIL.format(
        states="\n".join(["| number | role |", "| --- | --- |", *(f"| {n} | {name} |" for n, name in states.items())]),
        reasons=", ".join(f"`{name}`" for name in NAMES.values()) + ".",
        operations=", ".join(f"`{name}`" for name in sorted(OPERATIONS)) + ".",
    )
    return "\n".join([_HEAD, _METRICS, *sections, _workers(), tail])


def _workers() -> str:
    """Of `flotilla worker --metrics-listen`, which is a client: it has a table of its own."""
    rows = [Metric(name, kind, "Workers", text, LABELS[name]) for name, (kind, text) in FAMILIES.items()]
    return _TABLE_HEAD.format(name="Workers") + "".join(map(_row, rows))


def _section(name: str) -> str:
    return _TABLE_HEAD.format(name=name) + "".join(_row(metric) for metric in ALL_METRICS if metric.section == name)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"
