"""The Grafana boards in deploy/, asked of a real Prometheus that scrapes three nodes."""

import json
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client, NotFoundError
from flotilla.cli.local_cluster import HOST, LocalCluster
from tests.integration.ports import free_ports
from tests.integration.testing.waiting import eventually

pytestmark = pytest.mark.slow

BOARDS = Path(__file__).parents[3] / "deploy" / "grafana"
QUERIES = {
    f"{path.stem}: {panel['title']} {target['legendFormat']}": target["expr"]
    for path in sorted(BOARDS.glob("*.json"))
    for panel in json.loads(path.read_text("utf-8"))["panels"]
    for target in panel["targets"]
}


@pytest.fixture(scope="module")
def prometheus(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    targets = [f"{HOST}:{node.ports.http}" for node in cluster.nodes.values()]
    scrapes = [{"job_name": "flotilla", "static_configs": [{"targets": targets}]}]
    # JSON is YAML.
    config = {"global": {"scrape_interval": "500ms"}, "scrape_configs": scrapes}
    (folder / "prometheus.yaml").write_text(json.dumps(config), "utf-8")
    address = f"{HOST}:{free_ports(1)[0]}"
    options = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *options, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def ask(prometheus: str, query: str) -> list[Any]:
    """The series of a query; empty while Prometheus has none, or does not listen yet."""
    query = urllib.parse.urlencode({"query": query.replace("$__rate_interval", "10s")})
    try:
        with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
    except OSError:
        return []
    return [series for series in found if series["value"][1] != "NaN"]


def work(client: Client, stopping: threading.Event) -> None:
    """Some of everything: messages that are read, acknowledged, delayed, delivered again or dead; a refused request."""
    with client.queue("mails", group="senders") as queue, client.reader("mails", offset=0) as reader:
        while not stopping.is_set():
            client.produce_many("mails", [b"sent"] * 20)
            client.produce("mails", b"later", delay_ms=3_600_000)
            for message in queue.poll(20):
                if message.offset % 5:
                    message.ack(wait=False)
                else:
                    message.nack(delay_ms=0)
            reader.poll(100)
            with suppress(NotFoundError):
                client.describe_group("mails", "nobody")


def test_every_panel_shows_something(cluster: LocalCluster, prometheus: str) -> None:
    with Client(cluster.servers) as client:
        client.create_topic("mails", partitions=3, max_deliveries=2)
        stopping = threading.Event()
        worker = threading.Thread(target=work, args=(client, stopping))
        worker.start()
        try:
            left = dict(QUERIES)

            def is_complete() -> bool:
                for title in [title for title, query in left.items() if ask(prometheus, query)]:
                    del left[title]
                return not left

            try:
                eventually(is_complete)
            except AssertionError:
                pytest.fail(f"no data: {left}")
        finally:
            stopping.set()
            worker.join()
