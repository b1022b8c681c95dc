"""Brokers and clusters as processes: serving, stopping, forming, and running detached."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flotilla
from flotilla.cli.app import app
from flotilla.cli.local_cluster import LAYOUT_FILE, LocalCluster, LocalNode
from tests.integration.ports import free_base_port
from tests.integration.testing.waiting import eventually

pytestmark = pytest.mark.slow

SOURCE = str(Path(flotilla.__file__).parents[1])


def command(*args: str, options: tuple[str, ...] = (), timeout_s: float = 60) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLOTILLA_")}
    return subprocess.run(
        [sys.executable, *options, "-m", "flotilla.cli", *args],
        env={**environ, "PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def flags(node: LocalNode) -> list[str]:
    closed = ["--http-listen", "off", "--grpc-listen", "off"]
    return ["--listen", node.address, "--peer-listen", node.peer_address, *closed]


@pytest.fixture
def single(tmp_path: Path):
    with LocalCluster.on_free_ports(tmp_path / "single", node_count=1) as started:
        started.start()
        started.wait_ready()
        yield started


def test_a_broker_stops_in_order_and_keeps_others_out_while_it_runs(single: LocalCluster, tmp_path: Path):
    node = single.nodes[1]
    run = CliRunner(env={"FLOTILLA_CONFIG": None})
    taken = run.invoke(app, ["serve", "--data-dir", str(tmp_path / "other"), *flags(node)])
    assert taken.exit_code == 1
    complaint = taken.stderr.splitlines()[-1]
    assert complaint.startswith("flotilla: cannot listen at ")
    assert "another address" in complaint

    other = LocalCluster.on_free_ports(tmp_path, node_count=1).nodes[1]
    in_use = run.invoke(app, ["serve", "--data-dir", str(node.data), *flags(other)])
    assert (in_use.exit_code, in_use.stderr) == (1, f"flotilla: {node.data} is in use by another process\n")

    node.terminate()
    assert node.wait_gone(30) == 0
    foreign = run.invoke(app, ["serve", "--data-dir", str(node.data), "--node-id", "2", *flags(other)])
    assert (foreign.exit_code, foreign.stderr) == (2, f"flotilla: {node.data} belongs to node 1, not 2\n")
    assert "Traceback" not in node.log.read_text()


def test_a_broker_ends_with_its_parent(single: LocalCluster):
    node = single.nodes[1]
    assert node.process is not None
    assert node.process.stdin is not None
    node.process.stdin.close()
    assert node.wait_gone(30) == 0


def test_a_second_signal_ends_a_broker_at_once(single: LocalCluster):
    node = single.nodes[1]
    # Both are there before the process takes another step.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        os.kill(node.pid, number)
    assert node.wait_gone(30) == 1
    assert "ended by a second signal" in node.log.read_text()
    single.restart_node(1)
    single.wait_ready()


def test_a_broker_tells_systemd_and_reads_settings_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tmp_path / "node.toml"
    config.write_text('log_level = "warning"\nscrub_bytes_per_second = "0B"\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        audit = tmp_path / "audit.log"
        flags = ("--config", str(config), "--audit-log", str(audit))
        with LocalCluster.on_free_ports(tmp_path / "one", node_count=1, flags=flags) as started:
            started.start()
            assert manager.recv(100) == b"READY=1"
            node = started.nodes[1]
            audit.rename(tmp_path / "audit.log.1")
            # Written only if the new level counts.
            config.write_text('log_level = "info"\ndefault_partitions = 3\nscrub_bytes_per_second = "16MiB"\n')
            os.kill(node.pid, signal.SIGHUP)
            eventually(lambda: "settings read again" in node.log.read_text())
            assert '"need_restart":["default_partitions"]' in node.log.read_text()
            assert audit.exists()
            eventually(lambda: "all stored data were verified" in node.log.read_text())
            config.write_text("nonsense = 1\n")
            os.kill(node.pid, signal.SIGHUP)
            eventually(lambda: "the settings are as before" in node.log.read_text())
            node.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert node.wait_gone(30) == 0


def test_a_broker_refuses_to_run_without_asserts():
    refused = command("serve", options=("-O",))
    assert refused.returncode == 1
    assert refused.stderr.startswith("flotilla: a broker does not run under `python -O`")


def test_a_cluster_is_formed_out_of_waiting_nodes_and_forming_it_again_changes_nothing(tmp_path: Path):
    waiting = LocalCluster.on_free_ports(tmp_path, flags=("--await-init", "--peers", ""))
    run = CliRunner()
    with waiting:
        waiting.start()
        first = run.invoke(app, ["cluster", "init", *waiting.servers, "--json"])
        assert first.exit_code == 0, first.output
        formed = json.loads(first.stdout)
        assert [broker["node"] for broker in formed["brokers"]] == [1, 2, 3]
        again = run.invoke(app, ["cluster", "init", *waiting.servers, "--json"])
        assert json.loads(again.stdout)["cluster_id"] == formed["cluster_id"]
        part = run.invoke(app, ["cluster", "init", *waiting.servers[:2]])
        assert (part.exit_code, part.stderr.count("\n")) == (5, 1)


def test_missing_nodes_are_started_and_a_rolling_restart_leaves_a_complete_cluster(tmp_path: Path):
    folder = tmp_path / "cluster"
    base_port = str(free_base_port())
    run = CliRunner()
    data = ["--data", str(folder)]
    try:
        first = command("cluster", "start", *data, "--base-port", base_port, "--detach")
        assert first.returncode == 0, first.stderr
        local = LocalCluster.from_layout(folder)
        local.nodes[2].kill()
        survivors = {node: local.nodes[node].pid for node in (1, 3)}
        started = command("cluster", "start", *data)
        assert started.returncode == 0, started.stderr
        assert "starting 1 of the 3 node(s)" in started.stderr
        filled = LocalCluster.from_layout(folder)
        assert {node: filled.nodes[node].pid for node in (1, 3)} == survivors
        assert run.invoke(app, ["cluster", "restart", "4", *data]).exit_code == 3
        restarted = command("cluster", "restart", "--rolling", *data, "--json")
        assert restarted.returncode == 0, restarted.stderr
        assert json.loads(restarted.stdout)["restarted"] == [1, 2, 3]
        later = LocalCluster.from_layout(folder)
        assert len(later.running) == 3
        assert not {node.pid for node in later.nodes.values()} & {node.pid for node in filled.nodes.values()}
    finally:
        run.invoke(app, ["cluster", "stop", *data])


def test_a_cluster_in_the_background_comes_back_with_its_data(tmp_path: Path):
    folder = str(tmp_path / "cluster")
    base_port = str(free_base_port(1))
    run = CliRunner()
    try:
        started = command("cluster", "start", "--nodes", "1", "--data", folder, "--base-port", base_port, "--detach")
        assert started.returncode == 0, started.stderr
        servers = f"127.0.0.1:{base_port}"
        assert servers in started.stdout
        assert run.invoke(app, ["produce", "kept", "message", "-s", servers]).exit_code == 0
        twice = run.invoke(app, ["cluster", "start", "--data", folder, "--detach"])
        assert twice.exit_code == 5
        assert "runs already" in twice.stderr
        assert run.invoke(app, ["cluster", "stop", "--data", folder]).stdout == "stopped 1 node(s)\n"
        assert run.invoke(app, ["cluster", "stop", "--data", folder]).stdout == "no node was running\n"
        again = command("cluster", "start", "--data", folder, "--detach", "--json")
        assert json.loads(again.stdout) == {"nodes": 1, "servers": [servers], "data": folder}
        assert run.invoke(app, ["consume", "kept", "-s", servers]).stdout == "message\n"
        stopped = run.invoke(app, ["cluster", "stop", "--data", folder, "--json"])
        assert json.loads(stopped.stdout) == {"stopped": 1, "data": folder}
    finally:
        run.invoke(app, ["cluster", "stop", "--data", folder])


def test_a_port_that_is_taken_is_named_and_another_can_be_tried(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["cluster", "start", "--nodes", "1", "--data", str(tmp_path), "--base-port", str(port)]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 4
    assert f"node 1 ended: flotilla: cannot listen at 127.0.0.1:{port}" in result.stderr
    assert not (tmp_path / LAYOUT_FILE).exists()


def test_ctrl_c_stops_a_cluster_in_the_foreground(tmp_path: Path):
    base_port = str(free_base_port(1))
    folder = tmp_path / "cluster"
    arguments = ["cluster", "start", "--nodes", "1", "--data", str(folder), "--base-port", base_port]
    with subprocess.Popen(
        [sys.executable, "-m", "flotilla.cli", *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "Ctrl-C stops them" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert LocalCluster.from_layout(folder).running == []
