"""The reference page of topic and group settings: `REWRITE=1 pytest tests/tidy/test_topic_settings_docs.py`.

Names, defaults, bounds and the first sentence of each meaning come from the tables in `flotilla.types`; the notes below
add what an application developer asks next.
"""

from collections.abc import Iterable
from typing import Final

from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.setting_table import Setting
from flotilla.types.topics import PARTITIONS, REPLICATION_FACTOR, SETTINGS

PATH = "docs/reference/topic-settings.md"

_HEAD = """\
# Topic and group settings

```console
$ flotilla topic create orders --partitions 3 --set retention_ms=30d --set payload_bytes_max=4MiB
$ flotilla topic alter orders --set max_deliveries=10        # at any time; --unset returns to the default
$ flotilla group alter orders billing --set visibility_ms=5m --set lease_ms_max=2h
$ flotilla topic describe orders                             # what is set, and what follows from the defaults
```

In Python: `client.create_topic("orders", partitions=3, retention_ms="30d")`, \
`client.alter_topic("orders", max_deliveries=10)`, `client.alter_group("orders", "billing", visibility_ms="5m")`.

Durations are written `100ms`, `30s`, `5m`, `2h`, `1d` (a bare number counts \
milliseconds), sizes `512B`, `64KiB`, `1MiB` (a bare number counts bytes). A change takes effect within seconds, \
without a restart. An unknown name or a value out of bounds is refused with `INVALID_ARGUMENT`, and nothing changes.

Node settings (addresses, data directory, timeouts) are on [another page](settings.md); fixed bounds are in \
[limits](limits.md).
"""

_GROUPS = """\
## Queue groups

Settings of one queue group of one topic. A group that does not set a value of the first six follows its topic.
"""

_ELSEWHERE = """\
## Their names elsewhere

| here | Celery | SQS | RabbitMQ | Kafka |
| --- | --- | --- | --- | --- |
| `visibility_ms` | `visibility_timeout` | `VisibilityTimeout` | consumer ack timeout \
| `group.share.record.lock.duration.ms` |
| `max_deliveries` | `max_retries` + 1 | `maxReceiveCount` of the redrive policy | `x-delivery-limit` \
| `group.share.delivery.count.limit` |
| `nack_backoff_ms`, `nack_backoff_max_ms` | `retry_backoff`, `retry_backoff_max` | none | delayed retry | none |
| `retention_ms`, `retention_bytes` | none | `MessageRetentionPeriod` | `max-age`, `max-length-bytes` \
| `retention.ms`, `retention.bytes` |
| `payload_bytes_max` | none | `MaximumMessageSize` | `max_message_size` | `max.message.bytes` |
| `rate_limit_per_minute` | `rate_limit`, per worker | none | none | quotas, in bytes |
| `dedup_window_ms`, `dedup_window_entries` | none | 5 minutes, fixed | none | producer id expiration |
| `transaction_timeout_ms` | none | none | none | `transaction.timeout.ms` |
| `partitions`, `replication_factor` | none | none | quorum queue members | `num.partitions`, `replication.factor` |
"""

#: What the one sentence in the table of the code leaves out.
_NOTES: Final = {
    "partitions": "They can be added and never removed. Keys and idempotency keys are spread over the partitions that "
    "the topic was created with, so adding some moves no key.",
    "replication_factor": "The default is lowered to the number of brokers, and missing replicas are added when "
    "brokers can take them; a factor that is asked for by name and cannot be kept is refused. It can be altered.",
    "max_deliveries": "A nack and an expired lease count as attempts; a release does not, and a lost connection only "
    "if the message was lost like that five times before. A record can have a `max_deliveries` of its own.",
    "visibility_ms": "Consumers of this package renew their leases while a handler runs, so this is how long a message "
    "of a worker that died can stay unavailable, not how long a handler may take.",
    "nack_backoff_ms": "Jitter is added. `nack(delay_ms=...)` replaces it for one failure.",
    "retention_bytes_hard": "It is at least `retention_bytes`. Without it, a queue group that nobody works for can "
    "fill the disk. What goes is counted as `trimmed_total`.",
    "retention_messages": "Any of the three retention limits suffices to remove a message, except what a queue group "
    "owes (`holds_retention`).",
    "payload_bytes_max": "A larger one is refused with `INVALID_ARGUMENT`.",
    "rate_limit_per_minute": "It covers all partitions and workers of the group, and never limits producing.",
    "dedup_window_entries": "As many idempotency keys are remembered. Those of the last five minutes are remembered on "
    "top of that, however many there are.",
    "dedup_window_ms": "Whichever limit is reached first ends the memory of a batch or a key, but the number ends none "
    "that is younger than five minutes; a shorter time does. What is forgotten is stored again.",
    "transaction_timeout_ms": "A transaction can set another time for itself, up to the same limit.",
    "lease_ms_max": "After that the lease expires, whatever the consumer does.",
    "ordered": 'A consumer with `ordered="key"` sets it, unless it was set to 0; then the consumer is refused.',
    "lost_ms": "That does not count as an attempt, until it has happened to a message five times.",
    "dead_letters": "`dead_letter_topic` names the topic.",
    "paused": "`flotilla group pause` and `resume` set it. Leases that exist can still be settled.",
    "holds_retention": "By default a queue group holds from its first poll of a partition on; a stream group, a "
    "reader and a redrive hold nothing. 1 that is set holds within 10 s on all partitions, even if the group has never "
    "polled, and for groups that commit offsets too. 0 lets retention take what the group owes.",
}


def render() -> str:
    topics = "## Topics\n\n" + _table(map(_row, (PARTITIONS, REPLICATION_FACTOR, *SETTINGS.values())))
    return "\n".join([_HEAD, topics, _GROUPS, _table(map(_group_row, GROUP_SETTINGS.values())), _ELSEWHERE])


def _table(rows: Iterable[str]) -> str:
    return "| setting | default | allowed | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _row(row: Setting) -> str:
    allowed = f"{row.format(row.kind.minimum)} to {row.format(row.kind.maximum)}"
    if row.kind.maximum >= 2**53 - 1:
        allowed = f"from {row.format(row.kind.minimum)}"
    if (row.kind.minimum, row.kind.maximum) == (0, 1):
        allowed = "0 or 1"
    if row.kind.shape == "TEXT":
        allowed = row.kind.allowed.replace("<", "&lt;")
    meaning = " ".join(filter(None, (row.help, _NOTES.get(row.name))))
    default = f"`{row.format(row.default)}`" if row.default != "" else ""
    return f"| `{row.name}` | {default} | {allowed} | {meaning} |\n"


def _group_row(row: Setting) -> str:
    if row.name in SETTINGS:
        return f"| `{row.name}` | as the topic | as for topics | {row.help} |\n"
    return _row(row)
