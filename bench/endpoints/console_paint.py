"""How long a browser takes to paint the console's first page, in a cluster with many topics and with one."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from bench.figure import Absence, Figure
from bench.options import BenchOptions
from bench.scale.cluster import started
from flotilla.cli.bench.probes import scratch
from flotilla.client.client import Client

AREA = "console"
_LOADS = 5
_CREATED_AT_ONCE = 32
#: Of the first byte that was asked for, in milliseconds: when anything was painted, and now.
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
_NOW = "() => performance.now()"
_WAIT_MS = 60_000


def measure(options: BenchOptions) -> list[Figure | Absence]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        return [Absence(AREA, "the first page", "no Chromium is installed here")]
    topics = options.pick(quick=500, full=10_000)
    # A node holds 8,192 replicas.
    with scratch(options.folder, "console") as folder, started(folder / "nodes", nodes=3) as cluster:
        node = cluster.cluster.running[0]
        address = f"http://127.0.0.1:{node.ports.http}/console"
        with _browser(path) as browser:
            few = _paint(browser, address)
            with ThreadPoolExecutor(_CREATED_AT_ONCE) as threads:
                list(threads.map(partial(_create, cluster.client), range(topics)))
            cluster.wait_at_rest()
            many = _paint(browser, address)
    return [
        *_figures("one topic", few),
        *_figures(f"{topics:,} topics", many),
    ]


def _create(client: Client, number: int) -> None:
    client.create_topic(f"topic-{number}", partitions=1, replication_factor=1, if_not_exists=True)


@contextmanager
def _browser(path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started_browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started_browser
        finally:
            started_browser.close()


def _paint(browser: Any, address: str) -> tuple[float, float]:
    """Milliseconds until something is painted, and until the state of the cluster is: each time with nothing cached."""
    painted, known = [], []
    for _ in range(_LOADS):
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.get_by_text("Healthy.").wait_for(timeout=_WAIT_MS)
        known.append(page.evaluate(_NOW))
        painted.append(page.evaluate(_PAINTED))
        context.close()
    return median(painted), median(known)


def _figures(what: str, found: tuple[float, float]) -> list[Figure]:
    names = ("something is painted", "the state of the cluster is")
    return [
        Figure(AREA, f"{what}: {name}", "ms", value, probe_name="", probe=0.0, ratio=0.0, goal=None)
        for name, value in zip(names, found, strict=True)
    ]
