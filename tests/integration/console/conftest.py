"""Three real nodes, a real browser, and a page of the console that notices whatever goes wrong in it."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.core import TyperGroup
from typer.main import get_command

from flotilla.cli.app import app
from flotilla.cli.local_cluster import LocalCluster

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
AXE = Path(__file__).with_name("vendor") / "axe.min.js"
#: Two replicas: a node can be drained, because two others are enough for all partitions.
FLAGS = ("--journal-file-bytes", "8MiB", "--default-replication-factor", "2")
#: A busy machine takes long for a page; a condition that never comes true fails after this.
WAIT_MS = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    local = LocalCluster.on_free_ports(tmp_path_factory.mktemp("console"), flags=FLAGS)
    try:
        local.start_ready()
        yield local
    finally:
        local.stop()


@pytest.fixture(scope="module")
def origin(cluster: LocalCluster) -> str:
    return f"http://127.0.0.1:{cluster.nodes[1].ports.http}"


@pytest.fixture(scope="module")
def http(origin: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=origin, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed here")
    # The sandbox of the browser does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield started
        finally:
            started.close()


def check_command(line: str) -> None:
    """Raises UsageError for a verb, an option or an argument that the command does not have."""
    words = shlex.split(line.rpartition("base64 -d | ")[2])
    assert words[0] == "flotilla"
    command, name, rest, parent = get_command(app), words[0], words[1:], None
    while True:
        context = command.make_context(name, rest, parent=parent)
        if not isinstance(command, TyperGroup):
            return
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        parent = context


class Console:
    """One page. Nothing may fail in it, and no request may leave the origin."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.faults: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._asked)
        page.on("console", self._told)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.origin}/", "about:")):
            self.faults.append(f"asked {request.url}")

    def _told(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.faults.append(message.text)

    def open(self, place: str) -> None:
        self.page.goto(f"{self.origin}/console#/{place}")
        self.page.locator("h1").wait_for()

    def see(self, text: str, within: str = "main") -> Any:
        found = self.page.locator(within).get_by_text(text).first
        found.wait_for()
        return found

    def gone(self, text: str, within: str = "main") -> None:
        self.page.locator(within).get_by_text(text).first.wait_for(state="detached")

    def row(self, text: str) -> Any:
        """The row of a table that has the text."""
        return self.page.locator("tbody tr").filter(has_text=text).first

    def press(self, button: str, row: str = "") -> None:
        place = self.row(row) if row else self.page.locator("main")
        place.get_by_role("button", name=button, exact=True).first.click()

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            control = self.page.locator(f"dialog [name={name}], dialog #{name}").first
            if control.evaluate("each => each.tagName") == "SELECT":
                control.select_option(value)
            else:
                control.fill(value)

    def submit(self) -> None:
        """Carries out the action of the open dialog, and waits until it is done. It shows commands that do the same."""
        assert {"CLI", "curl"} <= set(self.page.locator("dialog .same .name").all_text_contents())
        self.check_lines("dialog")
        self.page.locator("dialog button[type=submit]").click()
        self.page.locator("dialog").wait_for(state="detached")

    def act(self, button: str, row: str = "", **fields: str) -> None:
        self.press(button, row)
        self.fill(**fields)
        self.submit()

    def lines(self) -> list[str]:
        """The commands that do the same as the open dialog."""
        return self.page.locator("dialog .same code").all_text_contents()

    def check_lines(self, within: str) -> None:
        """The command has the verbs, options and arguments that are shown there."""
        for line in self.page.locator(f"{within} .same .line:has(.name:text-is('CLI')) code").all_text_contents():
            check_command(line)

    def violations(self) -> list[str]:
        """What axe finds wrong for people who use a keyboard or a screen reader."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=False)
    yield context
    context.close()


@pytest.fixture
def console(context: Any, origin: str) -> Iterator[Console]:
    console = Console(context.new_page(), origin)
    yield console
    console.page.close()
    assert console.faults == []


@pytest.fixture(scope="module")
def post(http: httpx.Client) -> Callable[..., Any]:
    def ask(path: str, **body: Any) -> Any:
        answer = http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    return ask
