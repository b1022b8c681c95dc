"""The cluster version in the metadata: when it moves, what it allows, and entries that this version does not know."""

import pytest

from flotilla.metadata import commands, rules
from flotilla.metadata.commands import DeleteTopic, InitCluster, RemoveBroker, SetClusterVersion, encode_command
from flotilla.types.errors import ConfigurationChangeError, InvalidArgumentError, UnknownEntryError
from flotilla.types.version import CLUSTER_VERSION_MAX, FIRST, NEWS, SUPPORTED, why_unsupported
from tests.unit.metadata.entries import CLUSTER, CLUSTER_NAME, Log, cluster, register

#: Kinds that were in the log when it had no version.
FIRST_KINDS = {*range(1, 9), 12, *range(14, 17), *range(20, 31), *range(40, 44), *range(50, 60), 80, 81}


def later_entry(kind: int = 200) -> bytes:
    """A command of a kind that a later version has brought."""
    data = bytearray(encode_command(DeleteTopic("t", 0, 5)))
    data[1] = kind
    return bytes(data)


def test_it_moves_up_and_never_down():
    log = cluster()
    assert log.machine.state.cluster_version == FIRST
    assert log.command(SetClusterVersion(2, (1, 2, 3), 60)) == 2
    assert log.command(SetClusterVersion(2, (), 61)) == 2
    assert log.command(SetClusterVersion(9, (1, 2, 3), 62)) == 9
    assert log.command(SetClusterVersion(3, (1, 2, 3), 63)) == 9
    assert log.machine.state.cluster_version == 9


def test_a_cluster_may_begin_with_a_later_one():
    log = Log()
    assert log.command(SetClusterVersion(2, (), 5)) == 2
    log.command(InitCluster(CLUSTER, CLUSTER_NAME, (1, 2, 3), 10))
    log.command(register(1))
    assert log.machine.state.cluster_version == 2


@pytest.mark.parametrize(
    ("command", "error"),
    [
        # A node that registered or left since all were asked.
        (SetClusterVersion(2, (1, 2), 60), ConfigurationChangeError),
        (SetClusterVersion(2, (1, 2, 3, 4), 60), ConfigurationChangeError),
        (SetClusterVersion(2, (), 60), ConfigurationChangeError),
        (SetClusterVersion(2**16, (1, 2, 3), 60), InvalidArgumentError),
        # Nodes of the first version do not know the command.
        (SetClusterVersion(FIRST, (1, 2, 3), 60), ConfigurationChangeError),
    ],
)
def test_what_is_refused_changes_nothing(command, error):
    log = cluster()
    assert isinstance(log.machine.check(command), error)
    assert isinstance(log.command(command), error)
    assert log.machine.state.cluster_version == FIRST


def test_commands_of_a_later_version_wait_for_it(monkeypatch):
    monkeypatch.setitem(commands.FIRST_VERSION_BY_COMMAND, RemoveBroker, 2)
    log = cluster()
    refused = log.machine.check(RemoveBroker(3, 70))
    assert isinstance(refused, ConfigurationChangeError)
    assert "needs cluster version 2, and the cluster is at 1" in str(refused)
    # Also when it is in the log: programs that know it agree with those that do not.
    assert isinstance(log.command(RemoveBroker(3, 70)), ConfigurationChangeError)
    log.command(SetClusterVersion(2, (1, 2, 3), 71))
    assert log.machine.check(RemoveBroker(3, 72)) is None


def test_every_later_command_says_which_version_brought_it():
    later = {command for kind, command in commands._COMMAND_BY_KIND.items() if kind not in FIRST_KINDS}
    assert later == set(rules.FIRST_VERSION_BY_COMMAND)
    assert set(rules.FIRST_VERSION_BY_COMMAND.values()) <= set(range(FIRST + 1, CLUSTER_VERSION_MAX + 1))
    assert sorted(NEWS) == list(range(FIRST, CLUSTER_VERSION_MAX + 1))


def test_an_unknown_entry_has_no_effect_where_all_programs_refuse_it():
    log = cluster()
    before = log.machine.state_hash()
    assert isinstance(log.apply(later_entry()), UnknownEntryError)
    log.machine.applied -= 2
    assert log.machine.state_hash() == before


def test_an_unknown_entry_is_not_skipped_where_it_has_a_meaning():
    log = cluster()
    assert log.command(SetClusterVersion(CLUSTER_VERSION_MAX + 1, (1, 2, 3), 60)) == CLUSTER_VERSION_MAX + 1
    # Others still have theirs.
    log.create("orders")
    with pytest.raises(UnknownEntryError):
        log.apply(later_entry())


def test_a_program_says_which_versions_it_supports():
    assert [why_unsupported(version) for version in (0, *range(SUPPORTED.lowest, SUPPORTED.highest + 1))] == [
        "" for _ in range(SUPPORTED.highest + 1)
    ]
    assert why_unsupported(9) == (
        f"the cluster is at version 9, and this program supports versions 1 to {CLUSTER_VERSION_MAX}: start it with a "
        "later version of flotilla"
    )
