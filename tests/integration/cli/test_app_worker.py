"""`flotilla worker module:app` as a real process: it works, drains, and starts again when a file changes."""

import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from flotilla import Client
from flotilla.testing import LocalBroker
from tests.integration.cli.test_processes import SOURCE
from tests.integration.ports import free_ports
from tests.integration.testing.waiting import eventually

pytestmark = pytest.mark.slow

APP = """
from pathlib import Path
from flotilla import App

app = App()

@app.task(topic="mail")
def send_mail(to: str):
    Path(to).write_text("VERSION")

@app.task(topic="fax")
def send_fax(to: str):
    Path(to).write_text("fax")
"""


@pytest.fixture(scope="module")
def broker():
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(APP.replace("VERSION", "one"))
    return tmp_path


@contextmanager
def worker(broker, folder, *words):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "FLOTILLA_SERVERS": broker.address}
    command = [sys.executable, "-m", "flotilla.cli", "worker", "shop:app", *words]
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def send(broker, topic, task, to):
    with Client(broker.address) as client:
        client.produce(topic, b'{"to": "%s"}' % to.encode(), headers={"flotilla-task-type": task})


def arrived(folder: Path, name: str):
    return lambda: (folder / name).exists() and (folder / name).read_text()


def test_a_worker_of_an_app_works_and_drains(broker, folder):
    (port,) = free_ports(1)
    with worker(broker, folder, "--metrics-listen", f"127.0.0.1:{port}") as process:
        send(broker, "mail", "send_mail", "ann")
        assert eventually(arrived(folder, "ann")) == "one"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        assert 'flotilla_worker_messages_started_total{topic="mail",group="workers"} 1' in lines
        assert 'flotilla_worker_messages_started_total{topic="fax",group="workers"} 0' in lines
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "handling tasks of mail, fax" in errors
    assert "1 handled" in errors


def test_a_burst_of_one_topic_ends_by_itself(broker, folder):
    send(broker, "mail", "send_mail", "bob")
    send(broker, "fax", "send_fax", "cid")
    with worker(broker, folder, "--burst", "--topic", "mail") as process:
        process.communicate(timeout=60)
    assert (process.returncode, (folder / "bob").exists(), (folder / "cid").exists()) == (0, True, False)


def test_a_changed_file_starts_it_again(broker, folder):
    with worker(broker, folder, "--reload", "--topic", "mail") as process:
        send(broker, "mail", "send_mail", "dan")
        assert eventually(arrived(folder, "dan")) == "one"
        # A mistake ends the worker; the next change starts it.
        (folder / "shop.py").write_text("nonsense(")
        for line in process.stderr:
            if "waiting for a change" in line:
                break
        (folder / "shop.py").write_text(APP.replace("VERSION", "two!"))
        send(broker, "mail", "send_mail", "eve")
        assert eventually(arrived(folder, "eve")) == "two!"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--group", "x"), "an App says itself"),
        (("--topic", "ghost"), "no task of topic ghost"),
    ],
)
def test_words_that_do_not_go_with_an_app(broker, folder, words, complaint):
    with worker(broker, folder, *words) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert complaint in errors


PIDS = """
import os
from pathlib import Path
from flotilla import App

app = App()

@app.task(topic="counted")
def count(number: int):
    Path("done", f"{number}-{os.getpid()}").touch()
"""


def test_several_processes_share_the_work_and_one_that_dies_is_replaced(broker, tmp_path):
    (tmp_path / "shop.py").write_text(PIDS)
    (tmp_path / "done").mkdir()

    def handled():
        """Numbers, and the processes that handled them."""
        return [tuple(map(int, path.name.split("-"))) for path in (tmp_path / "done").iterdir()]

    def produce(client, numbers):
        for number in numbers:
            client.produce("counted", b'{"number": %d}' % number)

    with Client(broker.address) as client, worker(broker, tmp_path, "--processes", "2", "-c", "1") as process:
        client.create_topic("counted", partitions=2)
        sent = iter(range(10**6))
        eventually(lambda: produce(client, [next(sent)]) or len({pid for _, pid in handled()}) == 2)
        before = {pid for _, pid in handled()}
        os.kill(min(before), signal.SIGKILL)
        eventually(lambda: produce(client, [next(sent)]) or {pid for _, pid in handled()} - before)
        count = next(sent)
        eventually(lambda: {number for number, _ in handled()} == set(range(count)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "has ended with -9; another one takes its place" in process.stderr.read()
    for pid in {pid for _, pid in handled()}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_that_refuse_their_arguments_end_the_worker(broker, tmp_path):
    with worker(broker, tmp_path, "--processes", "2") as process:
        assert process.wait(60) == 2
