"""Plays conformance/sdk/*.json with the Python client; the meaning of every word stands in conformance/README.md."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flotilla import Client, Password, Tls, Token, Worker
from flotilla.client.producer.sync import Producer
from flotilla.client.queue.sync import QueueConsumer, QueueMessage
from flotilla.types.errors import FlotillaError, OutcomeUnknownError
from tests.conformance.matching import Mismatch, match, substitute
from tests.conformance.scenario import FOLDER
from tests.conformance.sdk.harness import Harness
from tests.conformance.values import to_bytes

ROOT = Path(__file__).parents[3]
STEP_SECONDS_MAX = 60
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class SdkScenario:
    file: str
    name: str
    at: str
    steps: list[dict[str, Any]]
    #: The ways in which consumers get messages; an SDK plays it with each of them that it offers.
    deliveries: tuple[str, ...] = ("poll",)

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def sdk_scenarios() -> Iterator[SdkScenario]:
    for path in sorted((FOLDER / "sdk").glob("*.json")):
        for each in json.loads(path.read_text("utf-8"))["scenarios"]:
            deliveries = tuple(each.get("deliveries", ("poll",)))
            yield SdkScenario(path.stem, each["name"], each["at"], each["steps"], deliveries)


def expanded(value: Any) -> Any:
    """The same with every `texts` and `range` written out."""
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"texts"}:
        return [str(number) for number in range(*value["texts"])]
    if value.keys() == {"range"}:
        return list(range(*value["range"]))
    return {key: expanded(item) for key, item in value.items()}


class OpenProducer:
    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._sent: list[Any] = []

    def send(self, payloads: list[Any]) -> None:
        for payload in payloads:
            self._sent.append(self._producer.send(to_bytes(payload)))

    def flush(self) -> list[int]:
        """The offsets of what was sent since the last time."""
        sent, self._sent = self._sent, []
        return [each.result().offset for each in sent]

    def close(self) -> None:
        self._producer.close()


class HeldWorker:
    """A worker whose handlers wait until they may end."""

    def __init__(self, servers: str, topic: str, group: str, visibility_ms: int) -> None:
        self.begun: list[str] = []
        self._may_end = threading.Event()
        self._worker = Worker(servers, topic, group, self._handle, visibility_ms=visibility_ms)
        self._worker.__enter__()

    def _handle(self, message: QueueMessage) -> None:
        self.begun.append(message.text)
        self._may_end.wait()

    def close(self) -> None:
        self._may_end.set()
        self._worker.__exit__(None, None, None)


class Program:
    """A worker in a process of its own."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        command = [sys.executable, "-m", "tests.conformance.sdk.drained", servers, topic, group]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.strip() for line in self.process.stdout)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")

    def describe(self) -> dict[str, Any]:
        return {
            "lines": list(self.lines),
            "has_ended": self.process.poll() is not None and not self._reading.is_alive(),
        }

    def close(self) -> None:
        self.process.kill()
        self._reading.join()
        with self.process:
            pass  # Its pipes are closed.


class SdkPlay:
    """One scenario. Everything that a step names is kept by its name, and closed at the end, the last one first."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._named: dict[str, Any] = {}
        self._calls: dict[str, Future[Any]] = {}
        self._variables: dict[str, Any] = {}
        self._threads = ThreadPoolExecutor()

    def run(self, scenario: SdkScenario) -> None:
        self._variables = self._harness.ask("begin", at=scenario.at, protocol="tcp")
        try:
            for number, step in enumerate(scenario.steps, 1):
                try:
                    self._step(step)
                except Mismatch as failure:
                    raise AssertionError(f"{scenario}, step {number}: {failure}\n{json.dumps(step)}") from failure
        finally:
            self._harness.ask("heal")
            for each in reversed(self._named.values()):
                if hasattr(each, "close"):
                    with suppress(FlotillaError):
                        each.close()
            self._threads.shutdown()

    def _step(self, step: dict[str, Any]) -> None:
        given = substitute(expanded(step.get("with", {})), self._variables)
        act: Callable[..., Any] = getattr(self, f"_{step['do']}", None) or self._fault(step["do"])
        if "as" in step and step["do"] != "poll":
            given["name"] = step["as"]
        elif "as" in step:
            given["keep"] = step["as"]
        if "start" in step:
            self._calls[step["start"]] = self._threads.submit(act, **given)
            return
        end = time.monotonic() + STEP_SECONDS_MAX
        while True:
            try:
                self._check(step, act, given)
                return
            except Mismatch:
                if not step.get("eventually") or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _check(self, step: dict[str, Any], act: Callable[..., Any], given: dict[str, Any]) -> None:
        try:
            found = act(**given) or {}
        except FlotillaError as error:
            if error.code != step.get("expect_error"):
                raise Mismatch(f"{error.code}: {error}") from error
            return
        if "expect_error" in step:
            raise Mismatch(f"{step['expect_error']} was expected, not {found}")
        match(substitute(expanded(step.get("expect", {})), self._variables), found)

    def _fault(self, do: str) -> Callable[..., Any]:
        return lambda **given: self._harness.ask(do, **given)

    # Steps.

    def _connect(self, name: str, **given: Any) -> None:
        tls = Tls(given["ca"], given.get("certificate", ""), given.get("key", "")) if "ca" in given else None
        credentials = Token(given["token"]) if "token" in given else None
        self._named[name] = Client(
            given.get("servers", self._variables["servers"]),
            timeout_ms=given.get("timeout_ms", 60_000),
            tls=tls,
            credentials=Password(given["user"], given["password"]) if "user" in given else credentials,
        )

    def _create_topic(self, topic: str, replication_factor: int = 1) -> None:
        create = partial(self._named["client"].create_topic, topic, partitions=1, replication_factor=replication_factor)
        try:
            create()
        except OutcomeUnknownError:
            # The controller was replaced meanwhile, as on a busy machine.
            create(if_not_exists=True)

    def _produce(self, topic: str, payload: str, client: str = "client", **fields: Any) -> dict[str, Any]:
        name = fields.pop("name", "")
        receipt = self._named[name] = self._named[client].produce(topic, payload.encode(), **fields)
        return {"offset": receipt.offset, "duplicate": receipt.duplicate}

    def _open_producer(self, name: str, topic: str, **options: Any) -> None:
        self._named[name] = OpenProducer(self._named["client"].producer(topic, **options))

    def _send(self, producer: str, payloads: list[Any]) -> None:
        self._named[producer].send(payloads)

    def _flush(self, producer: str) -> dict[str, Any]:
        return {"offsets": self._named[producer].flush()}

    def _read(self, topic: str, offset: int) -> dict[str, Any]:
        client: Client = self._named["client"]
        left = client.find_offset(topic, 0, "latest") - offset
        with client.reader(topic, offset=offset) as reader:
            payloads: list[str] = []
            while len(payloads) < left:
                payloads += [message.text for message in reader.poll()]
        return {"payloads": payloads}

    def _open_queue(self, name: str, topic: str, group: str, **options: Any) -> None:
        self._named[name] = self._named["client"].queue(topic, group, **options)

    def _poll(self, queue: str, count: int, wait_ms: int, keep: str = "") -> dict[str, Any]:
        consumer: QueueConsumer = self._named[queue]
        messages: list[QueueMessage] = []
        end = time.monotonic() + wait_ms / 1000
        while len(messages) < count and (left := end - time.monotonic()) > 0:
            messages += consumer.poll(count - len(messages), wait_ms=int(left * 1000))
        # Also those that nobody names: a message that is dropped is not renewed.
        self._named[keep or f"{queue}, polled"] = messages
        return {"messages": [{"payload": each.text, "attempt": each.attempt} for each in messages]}

    def _ack(self, messages: str) -> None:
        for message in self._named[messages]:
            message.ack()

    def _commit_acks(self, messages: str, result: Any) -> None:
        with self._named["client"].transaction() as transaction:
            for message in self._named[messages]:
                transaction.ack(message, result=to_bytes(result))

    def _result(self, receipt: str, group: str) -> dict[str, Any]:
        return {"payload": self._named["client"].result(self._named[receipt], group=group)}

    def _wait(self, call: str, ms: int) -> dict[str, Any]:
        done, _ = wait([self._calls[call]], ms / 1000)
        return {"has_ended": bool(done)} | ((self._calls[call].result() or {}) if done else {})

    def _close(self, name: str) -> None:
        self._named[name].close()

    def _describe_group(self, topic: str, group: str) -> dict[str, Any]:
        info = self._named["client"].describe_group(topic, group)
        return {"lag": info.lag, "acked_total": info.acked_total}

    def _start_worker(self, name: str, topic: str, group: str, visibility_ms: int) -> None:
        self._named[name] = HeldWorker(self._variables["servers"], topic, group, visibility_ms)

    def _describe_worker(self, worker: str) -> dict[str, Any]:
        return {"begun": list(self._named[worker].begun)}

    def _finish(self, worker: str) -> None:
        self._named[worker].close()

    def _start_process(self, name: str, topic: str, group: str) -> None:
        self._named[name] = Program(self._variables["servers"], topic, group)

    def _describe_process(self, process: str) -> dict[str, Any]:
        found: dict[str, Any] = self._named[process].describe()
        return found

    def _terminate(self, process: str) -> None:
        self._named[process].process.terminate()

    def _tell(self, process: str, line: str) -> None:
        self._named[process].tell(line)
