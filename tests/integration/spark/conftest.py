"""One Spark session and one cluster of three brokers for the whole run: each takes longer to start than most tests."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster
from tests.integration.lake.object_store import object_store, prepare_environment
from tests.integration.ports import free_ports
from tests.integration.spark import fault_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["object_store"]

ROOT = Path(__file__).parents[3]
#: What a broker of a test has beside its addresses: little files, so that retention has something to drop.
BROKER_FLAGS = ["--journal-file-bytes=2MiB", "--segment-file-bytes=1MiB"]
#: Only the quick compiler and the simple collector: half the time to start, and no thread that takes a core.
JAVA_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Over which a session is a test's; far above what anything here takes.
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder run in one worker, which has the one session."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def missing() -> str:
    """Why Spark cannot run here; empty if it can."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: pip install 'flotilla-mq[spark]'"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Java 17 is not installed, which Spark runs on"
    return ""


@pytest.fixture(scope="session", autouse=True)
def _spark_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Before the first session: workers inherit it."""
    if missing():
        pytest.skip(missing())
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ[fault_folder.VARIABLE] = str(tmp_path_factory.mktemp("faults"))
    prepare_environment()


@pytest.fixture(scope="session")
def spark(_spark_environment: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("flotilla-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", JAVA_FLAGS)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.globalTempDatabase", "flotilla")
        .config("spark.driver.memory", "1g")
        # The same JVM serves sessions of Spark Connect.
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.port", str(free_ports(1)[0]))
        # A machine that is busy takes longer to start a process than Spark waits for by default.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    import flotilla.spark

    flotilla.spark.register(session)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def _local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.on_free_ports(tmp_path_factory.mktemp("cluster"), flags=BROKER_FLAGS) as cluster:
        cluster.start()
        cluster.wait_ready()
        yield cluster


@pytest.fixture
def cluster(_local_cluster: LocalCluster) -> LocalCluster:
    """Three brokers, all of them running, with whatever earlier tests left: use topics of your own."""
    for node in _local_cluster.nodes.values():
        if not node.is_running:
            _local_cluster.restart_node(node.node)
    _local_cluster.wait_ready()
    return _local_cluster


@pytest.fixture
def servers(cluster: LocalCluster) -> str:
    """As the option `servers` takes them."""
    return ",".join(cluster.servers)


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster.servers, timeout_ms=60_000) as client:
        yield client


@pytest.fixture
def faults(_spark_environment: None) -> Path:
    """A folder that Spark's processes look into, with nothing in it."""
    folder = Path(os.environ[fault_folder.VARIABLE])
    for file in folder.iterdir():
        file.unlink()
    return folder


@pytest.fixture(params=["disk", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that no other test has."""
    if request.param == "disk":
        return str(tmp_path / "lake")
    return f"{request.getfixturevalue('object_store')}/lake-{next(_numbers)}"


_numbers = count(1)


@pytest.fixture
def topic(client: Client) -> Callable[..., str]:
    """Makes topics that no other test has."""

    def make(partitions: int = 2, **settings: int | str) -> str:
        name = f"spark-{next(_numbers)}"
        client.create_topic(name, partitions=partitions, **settings)
        return name

    return make
