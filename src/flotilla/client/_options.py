"""Parts that both clients are made from: addresses, a session, time limits, and methods that take many options."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypedDict, TypeVar

from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session import Session
from flotilla.client._core.session_options import SessionOptions
from flotilla.client._duration import Duration, milliseconds
from flotilla.client.credentials import CredentialsProvider
from flotilla.machine import here
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.filters import MessageFilter, WantedHeaders, checked_filter
from flotilla.types.limits import TIME_MS_MAX
from flotilla.types.version import __version__

TIMEOUT_MS_DEFAULT = 30_000

P = ParamSpec("P")
Shell = TypeVar("Shell")
Chosen = TypeVar("Chosen")
Made = TypeVar("Made")


class Subscription(NamedTuple, Generic[Chosen]):
    """What to read, for which group, and how."""

    topic: str
    group: str
    options: Chosen


def takes(
    choose: Callable[P, Chosen],
) -> Callable[[Callable[[Shell, Chosen], Made]], Callable[Concatenate[Shell, P], Made]]:
    """A method of a client with the parameters and the documentation of `choose`; it gets what `choose` returns.

    So a list of options stands once for both clients. A `timeout_ms` of None becomes the client's own.
    """

    def decorate(make: Callable[[Shell, Chosen], Made]) -> Callable[Concatenate[Shell, P], Made]:
        @wraps(make)
        def method(shell: Shell, /, *args: P.args, **kwargs: P.kwargs) -> Made:
            default_ms: int = shell._timeout_ms  # type: ignore[attr-defined]
            limits: dict[str, Any] = {"timeout_ms": read_timeout(kwargs.get("timeout_ms"), default_ms)}  # type: ignore[arg-type]
            kwargs.update(limits)
            return make(shell, choose(*args, **kwargs))

        own, others = inspect.signature(make), inspect.signature(choose)
        me = next(iter(own.parameters.values()))
        method.__signature__ = own.replace(parameters=[me, *others.parameters.values()])  # type: ignore[attr-defined]
        method.__doc__ = choose.__doc__
        return method

    return decorate


def full_name(name: str) -> str:
    """What a client calls itself, for people at the broker."""
    return f"flotilla-python/{__version__} {name}".strip()


def new_session(
    addresses: Sequence[Address],
    name: str,
    *,
    is_gateway: bool = False,
    seen: SeenMetadata | None = None,
    credentials: CredentialsProvider | None = None,
) -> Session:
    machine = here()
    options = SessionOptions(
        name=full_name(name), host=machine.host_name(), is_gateway=is_gateway, credentials=credentials
    )
    return Session(addresses, machine.chance(), options, machine.steady_ms(), seen)


class TopicOptions(TypedDict, total=False):
    """The settings of a topic as keyword arguments; docs/reference/topic-settings.md explains them.

    Durations are milliseconds, a timedelta or text such as "7d"; sizes are bytes or text such as "1MiB".
    """

    max_deliveries: int | str
    visibility_ms: Duration | str
    nack_backoff_ms: Duration | str
    nack_backoff_max_ms: Duration | str
    retention_ms: Duration | str
    retention_bytes: int | str
    retention_bytes_hard: int | str
    retention_messages: int | str
    delay_max_ms: Duration | str
    payload_bytes_max: int | str
    rate_limit_per_minute: int | str
    rate_limit_burst: int | str
    dedup_window_entries: int | str
    dedup_window_ms: Duration | str
    holds_dead_letters: int | str
    transaction_timeout_ms: Duration | str


class GroupOptions(TypedDict, total=False):
    """The settings of a queue group as keyword arguments; "" returns to the topic's. Text as for TopicOptions."""

    max_deliveries: int | str
    visibility_ms: Duration | str
    nack_backoff_ms: Duration | str
    nack_backoff_max_ms: Duration | str
    rate_limit_per_minute: int | str
    rate_limit_burst: int | str
    lease_ms_max: Duration | str
    lost_ms: Duration | str
    dead_letters: int | str
    dead_letter_topic: str
    result_ttl_ms: Duration | str
    ordered: int | str
    paused: int | str
    holds_retention: int | str
    single_active: int | str
    expires_after_ms: Duration | str


def read_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the protocol has them; the broker knows which there are and their bounds."""
    return {name: str(milliseconds(value)) for name, value in settings.items()}


def read_timeout(timeout_ms: Duration | None, default_ms: int) -> int:
    limit_ms = default_ms if timeout_ms is None else milliseconds(timeout_ms)
    if limit_ms < 1:
        raise InvalidArgumentError("timeout_ms is at least 1")
    return limit_ms


def read_filter(
    types: Sequence[str] | None,
    headers: WantedHeaders | None,
    key: bytes | str | None = None,
    contains: str = "",
) -> MessageFilter:
    """What a consumer asks for; None: everything. Raises InvalidArgumentError."""
    wanted = checked_filter(
        () if types is None else types,
        () if headers is None else headers,
        key.encode() if isinstance(key, str) else key,
        contains,
    )
    if types is not None and not wanted.types:
        raise InvalidArgumentError("types names at least one type; without it a consumer gets messages of all types")
    if headers is not None and not wanted.headers:
        raise InvalidArgumentError("headers names at least one header; without it a consumer gets messages with any")
    return wanted


def time_ms(moment: datetime) -> int:
    """Milliseconds since 1970. Raises InvalidArgumentError for a time without a zone, which is ambiguous."""
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{moment} has no time zone; say which, for example datetime.UTC")
    return checked_time(int(moment.timestamp() * 1000))


def checked_time(value: int) -> int:
    if not 0 <= value <= TIME_MS_MAX:
        raise InvalidArgumentError(f"{value} is no time in milliseconds since 1970")
    return value
