"""Topics, messages, the shell and the status of one real cluster, through the command."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import typer

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster
from flotilla.cli.terminal.arguments import complete_groups, complete_nodes, complete_topics
from tests.integration.testing.waiting import eventually

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


def lines(result):
    return result.stdout.splitlines()


def test_the_life_of_a_topic(flotilla):
    made = flotilla("topic", "create", "life", "--partitions", "3", "--set", "retention_ms=1h", "--json")
    assert len(json.loads(made.stdout)["partitions"]) == 3
    assert lines(flotilla("topic", "create", "life", "--if-not-exists")) == [
        "life: 3 partition(s), 3 replica(s), retention_ms=1h"
    ]
    again = flotilla("topic", "create", "life", code=5)
    assert (again.stdout, again.stderr.count("\n")) == ("", 1)

    listed = [line.split() for line in lines(flotilla("topic", "list"))]
    assert ["life", "3", "3"] in [line[:3] for line in listed]

    altered = flotilla(
        "topic", "alter", "life", "--partitions", "4", "--unset", "retention_ms", "--set", "max_deliveries=9"
    )
    assert lines(altered) == ["life: 4 partition(s), 3 replica(s), max_deliveries=9"]
    shrunk = flotilla("topic", "alter", "life", "--partitions", "1", code=2)
    assert shrunk.stderr.startswith("flotilla: ")

    assert flotilla("topic", "delete", "life", "--yes").stdout == "deleted life\n"
    assert json.loads(flotilla("topic", "delete", "life", "-y", "--if-exists", "--json").stdout) == {"deleted": []}
    flotilla("topic", "delete", "life", "--yes", code=3)
    flotilla("topic", "describe", "life", code=3)


def test_one_message_there_and_back(flotilla):
    flotilla("topic", "create", "single")
    sent = flotilla("produce", "single", "hello", "--key", "k", "--header", "trace=abc")
    assert sent.stdout == "single partition 0 offset 0\n"
    message = json.loads(flotilla("consume", "single", "--json").stdout)
    assert message | {"timestamp_ms": 0} == {
        "topic": "single",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 0,
        "key": "k",
        "headers": [{"name": "trace", "value": "abc"}],
        "payload": "hello",
    }
    assert flotilla("consume", "single", "--key", "k", "--format", "hex").stdout == "0:0 68656c6c6f\n"


def test_lines_of_input_and_of_a_file(flotilla, tmp_path: Path):
    flotilla("topic", "create", "lines", "--partitions", "2")
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(2_000)))
    sent = json.loads(flotilla("produce", "lines", "--file", str(file), "--partition", "1", "--json").stdout)
    assert sent["partitions"] == [{"partition": 1, "messages": 2_000, "last_offset": 1_999}]
    flotilla("produce", "lines", "--partition", "0", stdin=b"\xff\xfe\n\nlast")

    assert lines(flotilla("consume", "lines", "-p", "1")) == [str(number) for number in range(2_000)]
    assert lines(flotilla("consume", "lines", "-p", "1", "--from", "1990", "-n", "2")) == ["1990", "1991"]
    assert flotilla("consume", "lines", "-p", "0").stdout_bytes == b"\xff\xfe\n\nlast\n"
    assert flotilla("consume", "lines", "-p", "0", "--format", "raw").stdout_bytes == b"\xff\xfelast"
    assert len(lines(flotilla("consume", "lines"))) == 2_003
    assert flotilla("consume", "lines", "--from", "latest").stdout == ""
    assert len(lines(flotilla("consume", "lines", "--from", "1h"))) == 2_003
    assert lines(flotilla("consume", "lines", "--follow", "-n", "2", "-p", "1")) == ["0", "1"]
    assert lines(flotilla("consume", "lines", "--contains", "998")) == ["998", "1998"]
    assert lines(flotilla("consume", "lines", "--contains", "AST")) == ["last"]
    assert lines(flotilla("consume", "lines", "--key", "k")) == []
    flotilla("consume", "lines", "--key", "k", "--group", "g", code=2)

    described = json.loads(flotilla("topic", "describe", "lines", "--json").stdout)
    assert [part["next_offset"] for part in described["partitions"]] == [3, 2_000]


def test_the_whole_input_as_one_message(flotilla):
    flotilla("produce", "whole", "--whole", stdin=b"a\nb\n")
    assert flotilla("consume", "whole", "--format", "raw").stdout_bytes == b"a\nb\n"


def test_a_message_that_is_too_large_is_the_users_mistake(flotilla):
    flotilla("topic", "create", "small", "--set", "payload_bytes_max=10B")
    refused = flotilla("produce", "small", stdin=b"short\n" + b"x" * 11 + b"\n", code=2)
    assert refused.stderr.splitlines()[-1].startswith("flotilla: ")
    assert "Traceback" not in refused.output


def test_a_missing_topic_or_partition_is_an_error(flotilla):
    flotilla("consume", "nowhere", code=3)
    flotilla("topic", "create", "here")
    flotilla("consume", "here", "--partition", "7", code=2)
    flotilla("produce", "here", "x", "--partition", "7", code=2)


def test_a_session_in_the_shell(flotilla):
    script = """\
        # messages 0 to 2
        send chat first message
        send chat key=k 'second  message'
        send chat third
        mode manual
        subscribe chat group=readers from=earliest
        poll 2
        commit
        poll
        seek 1
        poll 1
        subscribe chat group=readers
        poll
        status
        exit
        send chat never
    """
    shown = lines(flotilla("shell", stdin=script))
    assert shown[:3] == [f"chat partition 0 offset {offset}" for offset in range(3)]
    messages = [line.split(" ", 2)[2].strip() for line in shown if line.startswith("0:")]
    assert messages == [
        "first message",
        "key=k  second  message",
        "third",
        "key=k  second  message",
        "third",
    ]
    assert "group readers is at 0:2" in shown
    assert shown[-1] == "reading chat as group readers at 0:3"


def test_the_shell_is_a_member_of_a_stream_group(flotilla):
    refused = flotilla("shell", stdin="send modes x\nmode stream\nsubscribe modes\n", code=2)
    assert "group=NAME" in refused.stderr
    lines = ["mode stream", "subscribe modes group=shared", "poll", "commit", "seek 0", "poll", "status", "nack no"]
    shown = flotilla("shell", stdin="\n".join(lines), code=2)
    assert "joins" in shown.stdout
    assert shown.stdout.count("offset 0") or shown.stdout.count(" x") == 2, shown.stdout
    assert "group shared is at 0:1" in shown.stdout
    assert "reading modes in stream group shared at 0:1" in shown.stdout
    assert "mode queue" in shown.stderr


def test_a_stream_group_on_the_command_line(flotilla, cluster: LocalCluster):
    flotilla("topic", "create", "streamed", "--partitions", "3")
    for number in range(6):
        flotilla("produce", "streamed", f"value-{number}")
    refused = flotilla("consume", "streamed", "--mode", "stream", code=2)
    assert "--group" in refused.stderr
    first = flotilla("consume", "streamed", "--mode", "stream", "-g", "shared", "-n", "4").stdout.split()
    rest = flotilla("consume", "streamed", "--mode", "stream", "-g", "shared").stdout.split()
    assert sorted(first + rest) == [f"value-{number}" for number in range(6)]
    [listed] = json.loads(flotilla("group", "list", "streamed", "--json").stdout)
    assert (listed["group"], listed["kind"], listed["lag"]) == ("shared", "stream", 0)
    flotilla("produce", "streamed", "later")

    def lags() -> list[int]:
        pages = [urlopen(f"http://127.0.0.1:{node.ports.http}/metrics").read() for node in cluster.nodes.values()]
        lag = rb'^flotilla_group_lag_messages{topic="streamed",.*group="shared"} (.+)$'
        return sorted(map(int, re.findall(lag, b"".join(pages), re.M)))

    eventually(lambda: lags() == [0, 0, 1])
    described = flotilla("group", "describe", "streamed", "shared").stdout
    assert "last rebalance" in described
    assert "left" in described
    assert "sticky" in described


def test_a_stream_group_is_moved_and_deleted_on_the_command_line(flotilla, cluster: LocalCluster):
    flotilla("topic", "create", "moved", "--partitions", "3")
    for number in range(6):
        flotilla("produce", "moved", f"value-{number}")
    read = ("consume", "moved", "--mode", "stream", "-g", "shared", "-n", "6")
    assert len(flotilla(*read).stdout.split()) == 6
    planned = json.loads(
        flotilla("group", "reset", "moved", "shared", "--to", "earliest", "--dry-run", "--json").stdout
    )
    assert sum(move["from_offset"] for move in planned.values()) == 6
    assert {move["to_offset"] for move in planned.values()} == {0}
    assert json.loads(flotilla("group", "list", "moved", "--json").stdout)[0]["lag"] == 0
    moved = json.loads(flotilla("group", "reset", "moved", "shared", "--to", "earliest", "--json").stdout)
    assert moved == planned
    assert len(flotilla(*read).stdout.split()) == 6

    with Client(cluster.servers) as client, client.stream("moved", group="shared") as consumer:
        # It joins in the background.
        while not client.describe_group("moved", "shared").stream.members:
            consumer.poll(1, wait_ms=20)
        for words in (("reset", "--to", "latest"), ("reset", "--to", "latest", "--dry-run"), ("delete",)):
            refused = flotilla("group", words[0], "moved", "shared", *words[1:], code=5)
            assert "to leave first" in refused.stderr
            (member,) = client.describe_group("moved", "shared").stream.members
            assert member.name in refused.stderr
    flotilla("group", "delete", "moved", "shared")
    assert json.loads(flotilla("group", "list", "moved", "--json").stdout) == []
    flotilla("group", "delete", "moved", "shared", code=3)


def test_the_status_of_the_cluster(flotilla, cluster: LocalCluster):
    flotilla("topic", "create", "spread", "--partitions", "6")
    status = json.loads(flotilla("cluster", "status", "--wait", "--json").stdout)
    assert status["is_whole"]
    assert [broker["client"] for broker in status["brokers"]] == cluster.servers
    assert status["controller"] in (1, 2, 3)
    assert sum(broker["is_controller"] for broker in status["brokers"]) == 1
    assert all(broker["is_alive"] for broker in status["brokers"])
    with Client(cluster.servers, name="clerk") as client:
        client.topics()
        connected = json.loads(flotilla("cluster", "clients", "--json").stdout)
        assert connected["silent"] == []
        assert {each["node"] for each in connected["clients"]} == {1, 2, 3}
        assert any(each["name"].endswith(" clerk") for each in connected["clients"])
        assert "clerk" in flotilla("cluster", "clients").stdout
        assert {line.split()[0] for line in lines(flotilla("cluster", "clients", "--node", "2"))[1:]} == {"2"}
        flotilla("cluster", "clients", "--node", "9", code=3)
    table = lines(flotilla("cluster", "status", "--wait"))
    assert table[0].split() == ["node", "address", "alive", "state", "controller", "leads", "replicas", "version"]
    # A replica of the new topic may be warned of until its leader has heard from it.
    assert len([line for line in table if not line.startswith("warning")]) == 5


def test_groups_of_all_topics_and_what_a_shell_completes(flotilla, cluster: LocalCluster):
    for topic in ("complete-a", "complete-b"):
        flotilla("produce", topic, "message")
        flotilla("consume", topic, "--group", f"readers-of-{topic}")
    table = lines(flotilla("group", "list"))
    assert table[0].split()[:2] == ["topic", "group"]
    assert [line.split()[:2] for line in table if line.startswith("complete-")] == [
        ["complete-a", "readers-of-complete-a"],
        ["complete-b", "readers-of-complete-b"],
    ]
    line = typer.Context(typer.core.TyperGroup(name="flotilla"))
    line.params = {"servers": cluster.servers[0], "topic": "complete-a"}
    assert complete_topics(line, "complete-") == ["complete-a", "complete-b"]
    assert complete_groups(line, "") == ["readers-of-complete-a"]
    assert complete_nodes(line, "") == ["1", "2", "3"]
    line.params = {"servers": "127.0.0.1:1", "topic": "complete-a"}
    assert complete_topics(line, "") == []


def test_a_command_that_watches_shows_it_again(cluster: LocalCluster):
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLOTILLA_SERVERS": cluster.servers[0]}
    arguments = [sys.executable, "-u", "-m", "flotilla.cli", "cluster", "status", "--watch", "--json"]
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first, blank, second = (watching.stdout.readline() for _ in range(3))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
    assert json.loads(first)["brokers"] == json.loads(second)["brokers"]
    assert blank == "\n"


def test_the_quickstart_works_as_written(flotilla, cluster: LocalCluster):
    text = (ROOT / "docs/quickstart.md").read_text("utf-8")
    typed = re.findall(r"^\$ (?:seq (\d+) \| )?flotilla ((?:topic|produce|consume) .+)$", text, re.MULTILINE)
    for count, line in typed:
        if "--follow" not in line:
            numbers = "".join(f"{number}\n" for number in range(1, int(count or 0) + 1))
            flotilla(*shlex.split(line), stdin=numbers)
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert '"localhost:7600"' in program
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = program.replace('"localhost:7600"', repr(cluster.servers[0]))
    ran = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    # The receipt, and the first messages of the topic.
    assert len(ran.stdout.splitlines()) > 1
    messages = lines(flotilla("consume", "orders", "--count", "3000"))
    assert len(messages) == 1 + 1_000 + 1 + 1_000


def test_a_dead_node_is_seen(flotilla, cluster: LocalCluster):
    cluster.nodes[1].kill()
    status = json.loads(flotilla("cluster", "status", "--json", code=4).stdout)
    assert not status["is_whole"]
    assert {(warning["code"], warning["node"]) for warning in status["warnings"]} == {("REPLICA_DOWN", 1)}
    assert "warning: node 1 cannot be reached" in flotilla("cluster", "status", code=4).stdout
    flotilla("produce", "survivor", "still here")
    assert lines(flotilla("consume", "survivor")) == ["still here"]
    cluster.restart_node(1)
    flotilla("cluster", "status", "--wait", "--timeout", "30s")
