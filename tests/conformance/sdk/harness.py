"""Brokers for scenarios of SDKs, and everything that happens to them.

    cluster   three nodes, each behind a relay that can hold answers back and cut connections
    secured   one node with TLS that asks who its clients are

A runner asks for faults by name over a control connection: lines of JSON, one answer for each. It also tells there how
each scenario ended.
"""

import asyncio
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

from flotilla import Client, Tls
from flotilla.cli.chaos.machine.relay import CLIENTS, Network
from flotilla.cli.local_cluster import HOST, LocalCluster, LocalNode
from flotilla.security.authority import Authority
from flotilla.types.errors import FlotillaError
from tests.integration.fork_server import fork_local_clusters
from tests.unit.security.issuing import files_in, years_ago

fork_local_clusters()

FAULTS = ("mute", "heal", "cut", "wait_stored", "move_leader", "kill_leader")
USER = "ann"
PASSWORD = "a long password"
_WAIT_SECONDS_MAX = 30
#: Four nodes start at once, beside other tests.
_START_SECONDS_MAX = 120
_PAUSE_SECONDS = 0.02
Result = TypeVar("Result")


class RelayedCluster(LocalCluster):
    """Three nodes that advertise the addresses of their relays, by node and protocol."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.relays: dict[tuple[int, str], int] = {}

    async def relay(self, network: Network) -> None:
        for node in self.nodes.values():
            for protocol, port in (("tcp", node.ports.client), ("grpc", node.ports.grpc)):
                self.relays[node.node, protocol] = await network.listen(node.node, port, is_for_peers=False)

    def reached_by(self, protocol: str) -> str:
        return ",".join(f"{HOST}:{self.relays[node, protocol]}" for node in self.nodes)

    @property
    def servers(self) -> list[str]:
        return self.reached_by("tcp").split(",")

    def _settings(self, node: LocalNode) -> dict[str, str]:
        return super()._settings(node) | {"--advertise": f"{HOST}:{self.relays[node.node, 'tcp']}"}

    def leader_of(self, topic: str) -> LocalNode:
        """The node that leads the only partition, as one of the nodes says."""
        found: dict[str, Any] = {}

        def is_known() -> bool:
            for node in self.running:
                found.update(_get(node, f"topics/{topic}") or {})
            return bool(found and found["partitions"][0]["leader"])

        _wait_until(is_known, f"{topic} has a leader")
        return self.nodes[found["partitions"][0]["leader"]]


class Harness:
    def __init__(self, folder: Path) -> None:
        self._numbers = count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness", daemon=True)
        self._thread.start()
        self._folder = folder
        self._network = self._run(_new_network())
        self.cluster = RelayedCluster.on_free_ports(folder / "cluster")
        self.cluster.folder.mkdir()
        self._run(self.cluster.relay(self._network))
        self._secured = LocalCluster.on_free_ports(folder / "secured", node_count=1, flags=self._secured_flags())
        self._secured.folder.mkdir()
        self._expired: asyncio.Server | None = None

    def start(self) -> None:
        self._secured.start()
        self.cluster.start()
        self.cluster.wait_ready(_START_SECONDS_MAX)
        self._expired = self._run(self._serve_expired())
        ca = files_in(self._folder, "node1").ca
        with Client(self._secured.servers, tls=Tls(ca), timeout_ms=1_000 * _START_SECONDS_MAX) as client:
            try:
                client.admin.users.create_administrator("root", PASSWORD)
            except FlotillaError:
                self._secured.check_alive()
                raise
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        with Client(self._secured.servers, tls=Tls(ca), user="root", password_file=str(password)) as client:
            client.create_topic("orders")
            client.admin.users.create(USER, PASSWORD)
            client.admin.grants.add(USER, "produce", "orders")

    def close(self) -> None:
        self.cluster.stop()
        self._secured.stop()
        self._run(self._network.close())
        if self._expired is not None:
            self._call(self._expired.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # What runners ask for. Each returns variables for the scenario, or nothing.

    def begin(self, at: str, protocol: str) -> dict[str, Any]:
        """No fault is left. Fresh names, and where the brokers are."""
        self.heal()
        killed = self.cluster.nodes.keys() - {each.node for each in self.cluster.running}
        for node in killed:
            self.cluster.restart_node(node)
        if killed:
            self.cluster.wait_ready()
        number = next(self._numbers)
        found: dict[str, Any] = {"topic": f"topic-{number}", "group": f"group-{number}"}
        if at == "cluster":
            return found | {"servers": self.cluster.reached_by(protocol)}
        node = self._secured.nodes[1]
        port = node.ports.client if protocol == "tcp" else node.ports.grpc
        assert self._expired is not None
        expired_port = self._expired.sockets[0].getsockname()[1]
        return found | self._secrets | {"servers": f"{HOST}:{port}", "expired_servers": f"{HOST}:{expired_port}"}

    def mute(self) -> None:
        """Answers are held back from now on; requests still reach their nodes."""
        for node in self.cluster.nodes:
            self._call(self._network.cut, node, CLIENTS)

    def heal(self) -> None:
        """What was held back arrives."""
        self._call(self._network.heal)

    def cut(self) -> None:
        """Every connection of clients ends, and what was held back is lost; new ones work."""
        for node in self.cluster.nodes:
            self._call(self._network.reset, node)
        self.heal()

    def wait_stored(self, topic: str, count: int) -> None:
        leader = self.cluster.leader_of(topic)
        path = f"topics/{topic}/partitions/0"
        _wait_until(
            lambda: (_get(leader, path) or {"next_offset": 0})["next_offset"] >= count, f"{topic} has {count} records"
        )

    def move_leader(self, topic: str) -> None:
        """To the node whose address clients have first."""
        with Client(self.cluster.servers) as client:

            def is_moved() -> bool:
                # A transfer may come to nothing, for example while node 1 has yet to catch up after its start.
                with suppress(FlotillaError):
                    client.admin.transfer_leadership(topic, 0, 1)
                return self.cluster.leader_of(topic).node == 1

            _wait_until(is_moved, f"node 1 leads {topic}")

    def kill_leader(self, topic: str) -> None:
        self.cluster.leader_of(topic).kill()

    def ask(self, do: str, **given: Any) -> dict[str, Any]:
        assert do in FAULTS or do == "begin", f"there is no step {do}"
        return getattr(self, do)(**given) or {}

    # The control connection.

    @contextmanager
    def control(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The address for one runner, and the results that it tells."""
        results: dict[str, str] = {}

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                told = json.loads(line)
                if "scenario" in told:
                    results[told["scenario"]] = told["result"]
                    continue
                try:
                    answer = {"result": await asyncio.to_thread(self.ask, told["do"], **told.get("with", {}))}
                except Exception as error:
                    answer = {"error": repr(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
            writer.close()

        server = self._run(asyncio.start_server(talk, HOST, 0))
        try:
            yield f"{HOST}:{server.sockets[0].getsockname()[1]}", results
        finally:
            self._call(server.close)

    # How it is made.

    def _secured_flags(self) -> list[str]:
        authority = Authority.create(self._folder, "flotilla")
        authority.issue_node(1, (HOST,))
        authority.issue_user(USER)
        old = self._folder / "expired"
        old.mkdir()
        for name in ("ca.crt", "ca.key"):
            (old / name).write_bytes((self._folder / name).read_bytes())
            (old / name).chmod(0o600)
        with years_ago(2):
            Authority(old).issue_node(1, (HOST,))
            Authority(old).issue_user(USER)
        Authority.create(self._folder / "other", "flotilla")
        key = ed25519.Ed25519PrivateKey.generate()
        keys = [jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k1"}]
        (self._folder / "keys.json").write_text(json.dumps({"keys": keys}))
        own, expired = files_in(self._folder, USER), files_in(old, USER)
        self._secrets = {
            "ca": own.ca,
            "other_ca": str(self._folder / "other" / "ca.crt"),
            "certificate": own.certificate,
            "key": own.key,
            "expired_certificate": expired.certificate,
            "expired_key": expired.key,
            "password": PASSWORD,
            "token": _token(key, 600),
            "expired_token": _token(key, -60),
            "forged_token": _token(ed25519.Ed25519PrivateKey.generate(), 600),
        }
        node = files_in(self._folder, "node1")
        return [
            "--tls-certificate", node.certificate, "--tls-key", node.key, "--tls-ca", node.ca,
            "--tls-client-certificates", "optional", "--authentication",
            "--token-keys", str(self._folder / "keys.json"),
        ]  # fmt: skip

    async def _serve_expired(self) -> asyncio.Server:
        """A port that shows a certificate of the node that has expired; nobody should get beyond that."""
        files = files_in(self._folder / "expired", "node1")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        context.set_alpn_protocols(["h2"])
        return await asyncio.start_server(lambda reader, writer: writer.close(), HOST, 0, ssl=context)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _call(self, act: Callable[..., None], *arguments: Any) -> None:
        async def acting() -> None:
            act(*arguments)

        self._run(acting())


async def _new_network() -> Network:
    return Network()


def _token(key: ed25519.Ed25519PrivateKey, seconds: int) -> str:
    now = int(time.time())
    return jwt.encode({"sub": USER, "aud": "flotilla", "iat": now, "exp": now + seconds}, key, "EdDSA", {"kid": "k1"})


def _get(node: LocalNode, path: str) -> dict[str, Any] | None:
    """The answer of this very node, past the relays; None: it has none now."""
    with suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{node.ports.http}/v1/{path}", timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
    return None


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _WAIT_SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come true: {what}")
        time.sleep(_PAUSE_SECONDS)
