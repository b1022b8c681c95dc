"""The table of a node's metrics, and their text for Prometheus (format 0.0.4).

The table is this module: a metric that is not in it cannot be written, and the reference page is made
from it. Units are base units (seconds, bytes), and labels are few: partitions have counters and gauges,
never histograms, so that a thousand partitions stay cheap to scrape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from flotilla.raft.roles import ROLE_NAMES
from flotilla.runtime.observability.histogram import DurationHistogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"

#: Bounds of histograms: powers of two microseconds from 16 us to 16.8 s.
_EXPONENTS = range(4, 25)
_BOUNDS = tuple((exponent, f"{(1 << exponent) / 1e6:.6f}") for exponent in _EXPONENTS)

#: flotilla_raft_state of a replica that repairs its log, and serves nothing until that is done.
STATE_DAMAGED = 0
_STATES = ", ".join(f"{number} {name}" for number, name in {STATE_DAMAGED: "damaged", **ROLE_NAMES}.items())


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    name: str
    kind: str
    section: str
    help: str
    labels: tuple[str, ...] = ()


_TABLE: list[Metric] = []


def _row(section: str, kind: str, name: str, text: str, *labels: str) -> Metric:
    metric = Metric(name, kind, section, text, labels)
    _TABLE.append(metric)
    return metric


def _messages(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Messages and requests", kind, name, text, *labels)


def _queue(kind: str, name: str, text: str) -> Metric:
    """Of one queue group in one partition."""
    return _row(
        "Queue groups", kind, name, f"{text} Reported by the partition's leader.", "topic", "partition", "group"
    )


def _consensus(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Consensus", kind, name, text, *labels)


def _storage(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Storage", kind, name, text, *labels)


def _network(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Peers and clients", kind, name, text, *labels)


def _process(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Process", kind, name, text, *labels)


def _proxy(kind: str, name: str, text: str, *labels: str) -> Metric:
    return _row("Proxies", kind, name, text, *labels)


MESSAGES_PRODUCED = _messages(
    COUNTER,
    "flotilla_messages_produced_total",
    "Records acknowledged to producers by this node, or made visible by it when their transaction committed; "
    "a duplicate of a stored batch does not count again.",
    "topic",
)
MESSAGES_DELIVERED = _messages(
    COUNTER,
    "flotilla_messages_delivered_total",
    "Records sent to readers by this node, from the offset that they asked for.",
    "topic",
)
MESSAGES_REDELIVERED = _messages(
    COUNTER,
    "flotilla_messages_redelivered_total",
    "Records sent to queue groups by this node that had been delivered before.",
    "topic",
)
REQUEST_SECONDS = _messages(
    HISTOGRAM,
    "flotilla_request_seconds",
    "From a request's arrival at the broker to its reply. A request that waited because its client asked it to "
    "(a long poll) counts under the operation's name with the suffix _wait.",
    "operation",
)
REQUEST_ERRORS = _messages(
    COUNTER,
    "flotilla_request_errors_total",
    "Requests answered with an error, by its code; NOT_LEADER is part of finding the leader.",
    "operation",
    "code",
)
RESULTS_KEPT = _messages(
    GAUGE,
    "flotilla_results_kept",
    "Results of acked messages that are kept for their callers. Reported by the partition's leader.",
    "topic",
    "partition",
)
RESULTS_KEPT_BYTES = _messages(
    GAUGE,
    "flotilla_results_kept_bytes",
    "Memory of these results; above 32 MiB the oldest are forgotten first. Reported by the partition's leader.",
    "topic",
    "partition",
)
GROUPS_EXPIRED = _messages(
    COUNTER,
    "flotilla_groups_expired_total",
    "Groups that this node, as the leader of the metadata, has deleted because nobody used them (expires_after_ms).",
)

MESSAGES_ACKED = _queue(
    COUNTER, "flotilla_messages_acked_total", "Messages that the group has acknowledged since it was created."
)
MESSAGES_DEAD_LETTERED = _queue(
    COUNTER,
    "flotilla_messages_dead_lettered_total",
    "Messages of the group that failed for the last time or were rejected, and went to its dead-letter topic.",
)
MESSAGES_UNBURIED = _queue(
    GAUGE,
    "flotilla_messages_unburied",
    "Dead messages of the group that its dead-letter topic has refused; they are tried again.",
)
MESSAGES_TRIMMED = _queue(
    COUNTER,
    "flotilla_messages_trimmed_total",
    "Messages that retention, a trim or a purge removed before the group had settled them.",
)
RETENTION_HELD_MESSAGES = _queue(
    GAUGE,
    "flotilla_retention_held_messages",
    "Messages that stay for the group although they are beyond the topic's retention; only of groups that hold some.",
)
GROUP_LAG_MESSAGES = _queue(
    GAUGE,
    "flotilla_group_lag_messages",
    "Unsettled messages of the group; of a stream group, and of a reader that commits, those after its position.",
)
GROUP_LAG_SECONDS = _queue(
    GAUGE,
    "flotilla_group_lag_seconds",
    "The age of the oldest of these messages that is not delayed; 0 without one.",
)
QUEUE_READY = _queue(GAUGE, "flotilla_queue_ready", "Messages that the next poll of the group could get.")
QUEUE_LEASED = _queue(GAUGE, "flotilla_queue_leased", "Messages that members of the group have leased.")
QUEUE_DELAYED = _queue(
    GAUGE, "flotilla_queue_delayed", "Messages that wait for their delivery time or for their next attempt."
)

RAFT_STATE = _consensus(GAUGE, "flotilla_raft_state", f"The replica's role: {_STATES}.", "topic", "partition")
RAFT_TERM = _consensus(
    GAUGE, "flotilla_raft_term", "The replica's term; it rises with every election.", "topic", "partition"
)
RAFT_COMMIT_INDEX = _consensus(
    GAUGE, "flotilla_raft_commit_index", "The newest entry known to be committed.", "topic", "partition"
)
RAFT_REPLICATION_LAG = _consensus(
    GAUGE,
    "flotilla_raft_replication_lag",
    "Entries of the leader's log that the peer has not acknowledged. Reported by leaders only.",
    "topic",
    "partition",
    "peer",
)
RAFT_FORGOTTEN = _consensus(
    COUNTER,
    "flotilla_raft_forgotten_total",
    "Times that this leader found a peer without entries that it had acknowledged: a lost or restored disk.",
    "topic",
    "partition",
    "peer",
)
LEADERSHIPS = _consensus(
    COUNTER,
    "flotilla_leadership_changes_total",
    "Times that leadership of a partition began or ended at this node, by reason.",
    "event",
    "reason",
)
UNDER_REPLICATED = _consensus(
    GAUGE,
    "flotilla_under_replicated_partitions",
    "Partitions led here that have fewer replicas than their topic asks for.",
)
UNHEALTHY_REPLICAS = _consensus(
    GAUGE,
    "flotilla_unhealthy_replicas",
    "The peer's replicas of partitions led here that are down, behind (or learning), or forgetful (lost entries that "
    "they had acknowledged).",
    "peer",
    "state",
)
REPLICAS = _consensus(
    GAUGE,
    "flotilla_replicas",
    "Replicas at this node: leading, following, leaderless (no leader is known), damaged (repairing the log), "
    "failed (out of operation until the node starts again).",
    "state",
)

LOG_SIZE_BYTES = _storage(
    GAUGE,
    "flotilla_log_size_bytes",
    "Bytes of the replica's log, in segments or still in the journal.",
    "topic",
    "partition",
)
FSYNC_SECONDS = _storage(
    HISTOGRAM, "flotilla_fsync_seconds", "One write of the journal with its sync, which all partitions share."
)
STORAGE_ERRORS = _storage(
    COUNTER,
    "flotilla_storage_errors_total",
    "Failed disk operations: writes of the journal, or background work (segments, snapshots, removal).",
    "work",
)
STORAGE_OK = _storage(
    GAUGE, "flotilla_storage_ok", "1 while the journal can be written; 0 while nothing can be acknowledged."
)
DISK_FREE_BYTES = _storage(GAUGE, "flotilla_disk_free_bytes", "Free bytes of the file system of the data directory.")
DISK_SIZE_BYTES = _storage(GAUGE, "flotilla_disk_size_bytes", "Bytes of the file system of the data directory.")
DISK_WARN_FREE_BYTES = _storage(
    GAUGE, "flotilla_disk_warn_free_bytes", "With fewer free bytes the node warns (disk_warn_free); 0: never."
)
DISK_REFUSE_FREE_BYTES = _storage(
    GAUGE,
    "flotilla_disk_refuse_free_bytes",
    "With fewer free bytes the node refuses new messages for partitions that it leads (disk_refuse_free); 0: never.",
)

SCRUBBED_BYTES = _storage(
    COUNTER, "flotilla_scrubbed_bytes_total", "Stored bytes that were read again in the background and verified."
)
SCRUB_DAMAGE = _storage(
    COUNTER, "flotilla_scrub_damage_total", "Damaged places in stored data that the scrubber has found."
)
SCRUB_PASS_AGE = _storage(
    GAUGE,
    "flotilla_scrub_pass_age_seconds",
    "Seconds since a pass ended that read all stored data; since the start, before the first one.",
)
STALLED_READS = _storage(
    GAUGE,
    "flotilla_stalled_replicas",
    "Replicas that wait for a read which their disk has not returned within 3 seconds.",
)

PEER_UP = _network(GAUGE, "flotilla_peer_up", "1 while the peer is connected in both directions.", "peer")
PEER_QUEUED_BYTES = _network(GAUGE, "flotilla_peer_queued_bytes", "Bytes queued for the peer's socket.", "peer")
PEER_SENT_BYTES = _network(COUNTER, "flotilla_peer_sent_bytes_total", "Bytes sent to the peer.", "peer")
PEER_DROPPED_FRAMES = _network(
    COUNTER, "flotilla_peer_dropped_frames_total", "Frames dropped because the peer did not keep up.", "peer"
)
CLIENT_CONNECTIONS = _network(GAUGE, "flotilla_client_connections", "Connected clients, over TCP.")
CONNECTED_CLIENTS = _network(
    GAUGE,
    "flotilla_connected_clients",
    "Connected clients, by endpoint: tcp, http or grpc. Over gRPC a client counts while it has a call in flight. The "
    "node's own connections to itself are left out.",
    "endpoint",
)
CLIENT_CONNECTIONS_ACCEPTED = _network(
    COUNTER, "flotilla_client_connections_accepted_total", "Accepted connections of clients."
)
CLIENT_CONNECTIONS_REFUSED = _network(
    COUNTER, "flotilla_client_connections_refused_total", "Connections refused because too many clients were connected."
)
CLIENT_CONNECTIONS_CUT = _network(
    COUNTER, "flotilla_client_connections_cut_total", "Connections cut to make room for others."
)
CLIENT_REQUESTS_IN_FLIGHT = _network(
    GAUGE, "flotilla_client_requests_in_flight", "Requests of clients in flight, long polls included."
)
CLIENT_RECEIVED_BYTES = _network(COUNTER, "flotilla_client_received_bytes_total", "Bytes received from clients.")
CLIENT_SENT_BYTES = _network(COUNTER, "flotilla_client_sent_bytes_total", "Bytes sent to clients.")

QUOTA_WAITED_SECONDS = _network(
    COUNTER,
    "flotilla_quota_waited_seconds_total",
    "Time for which connections were not read because of a quota, by the user or namespace that has it.",
    "subject",
)
QUOTA_REFUSED = _network(
    COUNTER, "flotilla_quota_refused_total", "Requests and connections that a quota refused.", "subject"
)
QUOTA_STORED_BYTES = _network(
    GAUGE,
    "flotilla_quota_stored_bytes",
    "What the topics of a user or namespace with a bound on it store, without replicas.",
    "subject",
)

PIPELINE_RECORDS_BEHIND = _network(
    GAUGE, "flotilla_pipeline_records_behind", "Records that a pipeline has yet to read; at the controller.",
    "pipeline", "id",
)  # fmt: skip
PIPELINE_BYTES_BEHIND = _network(
    GAUGE, "flotilla_pipeline_bytes_behind", "The same in bytes, estimated.", "pipeline", "id"
)
PIPELINE_RECORDS_PER_SECOND = _network(
    GAUGE, "flotilla_pipeline_records_per_second", "What it reads in a second.", "pipeline", "id"
)
PIPELINE_BATCH_SECONDS = _network(
    GAUGE, "flotilla_pipeline_batch_seconds", "How long its last batch took.", "pipeline", "id"
)
PIPELINE_REPORT_AGE = _network(
    GAUGE, "flotilla_pipeline_report_age_seconds", "How long ago it reported last: after each batch, and while it has "
    "nothing to read.", "pipeline", "id",
)  # fmt: skip
PIPELINE_LAKE_BYTES = _network(
    GAUGE, "flotilla_pipeline_lake_bytes", "Stored in the tables of its topics, if it writes a lake.", "pipeline", "id"
)
PIPELINE_LAKE_ROWS = _network(GAUGE, "flotilla_pipeline_lake_rows", "Rows of these tables.", "pipeline", "id")
PIPELINE_LAKE_VERIFIED = _network(
    GAUGE,
    "flotilla_pipeline_lake_verified_timestamp_seconds",
    "When the one of these tables that was verified longest ago was found intact; 0: one is not.",
    "pipeline", "id",
)  # fmt: skip

CLOCK_OFFSET_SECONDS = _process(
    GAUGE,
    "flotilla_clock_offset_seconds",
    "This node's wall clock minus the time of the cluster, which a majority of the brokers' clocks confirms.",
)
CLOCK_JUMPS = _process(
    COUNTER,
    "flotilla_clock_jumps_total",
    "Jumps of this node's wall clock by more than 5 s. The cluster does not follow them.",
)
CLOCKS_AGREE = _process(
    GAUGE,
    "flotilla_clocks_agree",
    "1 while the wall clocks of a majority of the brokers agree within a minute, as far as this node hears them.",
)
RETENTION_BEHIND_SECONDS = _process(
    GAUGE,
    "flotilla_retention_behind_seconds",
    "How much later than asked for messages go by age in the partitions that this node leads; the most of them. "
    "After a step of time or a long stop, retention removes a 60th of what is overdue each minute.",
)
BUILD_INFO = _process(
    GAUGE, "flotilla_build_info", "Always 1; the labels say what runs here.", "version", "python", "node"
)
CLUSTER_VERSION = _process(
    GAUGE, "flotilla_cluster_version", "The version of the cluster: what all its nodes can read, as this node knows it."
)
CLUSTER_VERSION_SUPPORTED = _process(
    GAUGE,
    "flotilla_cluster_version_supported",
    "The cluster versions that this node supports. Where the highest of every node is above the cluster's version, "
    "`flotilla cluster upgrade` can raise it.",
    "bound",
)
INSECURE = _process(
    GAUGE, "flotilla_insecure", "1 if other machines can connect to the node, and nothing asks who they are."
)
CERTIFICATE_EXPIRY_SECONDS = _process(
    GAUGE,
    "flotilla_certificate_expiry_seconds",
    "Time until the certificate that the node uses expires; below 0: it has. Only with TLS.",
)
UPTIME_SECONDS = _process(GAUGE, "flotilla_uptime_seconds", "Time since the node or the proxy was started.")
PROCESS_CPU_SECONDS = _process(
    COUNTER, "process_cpu_seconds_total", "Processor time of the process, user and system together."
)
PROCESS_RESIDENT_BYTES = _process(
    GAUGE, "process_resident_memory_bytes", "Memory of the process; only where the system reports it."
)
PROCESS_OPEN_FILES = _process(
    GAUGE, "process_open_fds", "Open files and sockets of the process; only where the system reports it."
)
FAILURES = _process(
    COUNTER,
    "flotilla_failures_total",
    "Unexpected failures, each of which ended one part of the node and nothing else: a group, a group's leadership, "
    "a link, a connection, a request, a check, other. The log has each of them; please report them.",
    "part",
)
GC_PAUSE_SECONDS = _process(
    HISTOGRAM,
    "flotilla_gc_pause_seconds",
    "One run of Python's garbage collector, during which the node does nothing else.",
)
GC_PAUSE_MAX_SECONDS = _process(
    GAUGE, "flotilla_gc_pause_max_seconds", "The longest run of the garbage collector since the node was started."
)

#: Of a node, in the order of the page and of the text.
METRICS: tuple[Metric, ...] = tuple(_TABLE)

PROXY_REQUESTS = _proxy(
    COUNTER,
    "flotilla_proxy_requests_total",
    "Requests that the proxy has answered: http or grpc, and the status of the answer; none: the client went away.",
    "interface",
    "status",
)
PROXY_REQUEST_SECONDS = _proxy(
    HISTOGRAM,
    "flotilla_proxy_request_seconds",
    "From a request's arrival at the proxy to the end of its answer, long polls and streams included.",
    "interface",
)
PROXY_REQUESTS_IN_FLIGHT = _proxy(
    GAUGE, "flotilla_proxy_requests_in_flight", "Requests that are being answered.", "interface"
)

#: The whole table.
ALL_METRICS: tuple[Metric, ...] = tuple(_TABLE)
#: Of a proxy.
PROXY_METRICS: tuple[Metric, ...] = (
    *ALL_METRICS[len(METRICS) :],
    UPTIME_SECONDS,
    PROCESS_CPU_SECONDS,
    PROCESS_RESIDENT_BYTES,
    PROCESS_OPEN_FILES,
)


def label(name: str, value: object) -> str:
    """One label, as written between the braces."""
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{name}="{text}"'


class Exposition:
    """Collects samples in any order; `render` groups them by metric, as the format demands."""

    __slots__ = ("_metrics", "_samples")

    def __init__(self, table: Sequence[Metric] = METRICS) -> None:
        self._metrics = table
        self._samples: dict[str, list[str]] = {metric.name: [] for metric in table}

    def add(self, metric: Metric, value: float, labels: str = "") -> None:
        """`labels` are results of `label` joined by commas, in the order of the metric's labels."""
        name = metric.name
        self._samples[name].append(f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n")

    def add_histogram(self, metric: Metric, histogram: DurationHistogram, labels: str = "") -> None:
        name, samples = metric.name, self._samples[metric.name]
        # Another thread may record meanwhile: the count is taken from this copy, so that both agree.
        buckets = list(histogram.buckets)
        count = sum(buckets)
        front = f"{labels}," if labels else ""
        for exponent, bound in _BOUNDS:
            samples.append(f'{name}_bucket{{{front}le="{bound}"}} {sum(buckets[: exponent + 1])}\n')
        samples.append(f'{name}_bucket{{{front}le="+Inf"}} {count}\n')
        braces = f"{{{labels}}}" if labels else ""
        samples.append(f"{name}_sum{braces} {histogram.sum_us / 1e6:.6f}\n")
        samples.append(f"{name}_count{braces} {count}\n")

    def render(self) -> bytes:
        lines: list[str] = []
        for metric in self._metrics:
            text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n")
            lines += self._samples[metric.name]
        return "".join(lines).encode()
