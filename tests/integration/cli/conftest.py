"""A real cluster of three for each module that uses it, and the command against it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.on_free_ports(tmp_path_factory.mktemp("cluster")) as started:
        started.start()
        started.wait_ready()
        yield started


@pytest.fixture
def flotilla(cluster: LocalCluster) -> Callable[..., Any]:
    """Runs a command against the cluster; it must end with the expected exit code."""

    def run(*args: str, stdin: bytes | str | None = None, code: int = 0) -> Any:
        # Any node will do; the last one is the least likely to lead.
        result = CliRunner(env={"FLOTILLA_SERVERS": cluster.servers[-1]}).invoke(app, args, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    return run
