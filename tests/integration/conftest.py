"""Fixtures and limits for every test with real processes."""

from flotilla.cli import local_cluster
from tests.integration.fork_server import fork_local_clusters
from tests.integration.ports import PORTS_HERE

# Local clusters draw from this process's share too, or two that start at once may find the same port free.
local_cluster.FREE_PORTS = PORTS_HERE
fork_local_clusters()
