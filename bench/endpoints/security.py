"""What TLS, a log-in by SCRAM and grants cost: processor time of a broker and its client together.

Two brokers of this process, one with everything off and one with everything on, take the same messages in turns. Goals:
at most twice the time for a small message, and 1.3 times for a batch of 100 KB.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from flotilla import Client, Password, Tls
from flotilla.security.authority import Authority
from flotilla.testing import LocalBroker
from flotilla.types.access import DESCRIBE, PRODUCE

TOPIC: Final = "orders"
_PASSWORD: Final = "correct horse battery staple"
_SMALL: Final = bytes(200)
_BATCH: Final = [bytes(200)] * 500
_LARGE: Final = bytes(100_000)


def measure(options: BenchOptions) -> list[Figure]:
    small, large = options.pick(quick=300, full=2_000), options.pick(quick=100, full=500)
    works: Sequence[tuple[str, int, Callable[[Client], object], float]] = (
        ("a message of 200 bytes", small, lambda client: client.produce(TOPIC, _SMALL), 2.0),
        ("a batch of 100 KB, 500 messages", large, lambda client: client.produce_many(TOPIC, _BATCH), 1.3),
        ("a message of 100 KB", large, lambda client: client.produce(TOPIC, _LARGE), 1.3),
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=options.folder)))
        plain, secured = stack.enter_context(_plain()), stack.enter_context(_secured(folder))
        figures = []
        for name, count, work, ratio in works:
            for client in (plain, secured):
                _processor_us(client, work, count // 10)
            figure = compare(
                "security",
                f"TLS, SCRAM and grants: {name}",
                "us",
                subject=lambda work=work, count=count: _processor_us(secured, work, count),  # type: ignore[misc]
                probe=lambda work=work, count=count: _processor_us(plain, work, count),  # type: ignore[misc]
                probe_name="everything off",
                goal=Goal(ratio, at_most=True),
                rounds=options.rounds + 3,
            )
            figures.append(figure)
    return figures


def _processor_us(client: Client, work: Callable[[Client], object], count: int) -> float:
    """Processor time of one, acknowledged."""
    begun_ns = time.process_time_ns()
    for _ in range(count):
        work(client)
    return (time.process_time_ns() - begun_ns) / count / 1_000


@contextmanager
def _plain() -> Iterator[Client]:
    with LocalBroker() as broker, Client(broker.address) as client:
        client.create_topic(TOPIC)
        yield client


@contextmanager
def _secured(folder: Path) -> Iterator[Client]:
    authority = Authority.create(folder, "flotilla")
    issued = authority.issue_node(1, ["127.0.0.1"])
    ca = str(folder / "ca.crt")
    certificate, key = str(issued.certificate), str(issued.key)
    tls = Tls(ca=ca)
    with LocalBroker(authentication=True, tls_certificate=certificate, tls_key=key, tls_ca=ca) as broker:
        with Client(broker.address, tls=tls) as nobody:
            nobody.admin.users.create_administrator("root", _PASSWORD)
        with Client(broker.address, tls=tls, credentials=Password("root", _PASSWORD)) as admin:
            admin.create_topic(TOPIC)
            admin.admin.users.create("alice", _PASSWORD)
            for action in (PRODUCE, DESCRIBE):
                admin.admin.grants.add("alice", action, TOPIC)
        with Client(broker.address, tls=tls, credentials=Password("alice", _PASSWORD)) as client:
            yield client
