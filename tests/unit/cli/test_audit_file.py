"""The audit log as a file of its own."""

import io
import json
from pathlib import Path

import pytest

from flotilla.cli.security.audit_file import AuditFile
from flotilla.runtime.observability.logs import configure_logs, get_logger, remove_logs
from flotilla.types.errors import InvalidArgumentError

audit, other = get_logger("audit"), get_logger("other")


@pytest.fixture
def logs():
    stream = io.StringIO()
    configure_logs(level="error", format="json", stream=stream)
    yield stream
    remove_logs()


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_audit_lines_are_in_their_file_alone_whatever_the_level_is(logs, tmp_path):
    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    try:
        audit.info("log-in", principal="user anna")
        other.error("failed")
    finally:
        file.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert events(path) == ["log-in"]
    assert json.loads(path.read_text())["principal"] == "user anna"
    assert json.loads(logs.getvalue())["event"] == "failed"
    audit.error("after the end")
    assert "after the end" in logs.getvalue()


def test_a_file_that_was_moved_away_is_made_again(logs, tmp_path):
    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    try:
        audit.info("one")
        path.rename(tmp_path / "audit.log.1")
        audit.info("two")
        file.reopen()
        audit.info("three")
        path.rename(tmp_path / "audit.log.2")
        path.mkdir()
        with pytest.raises(InvalidArgumentError, match="cannot be written to"):
            file.reopen()
        audit.info("four")
    finally:
        file.close()
    assert events(tmp_path / "audit.log.1") == ["one", "two"]
    assert events(tmp_path / "audit.log.2") == ["three", "four"]


def test_what_cannot_be_written_is_in_the_other_logs(logs):
    file = AuditFile("/dev/full")
    try:
        audit.info("log-in")
    finally:
        file.close()
    assert json.loads(logs.getvalue())["event"] == "log-in"


def test_a_file_that_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="the audit log cannot be written to"):
        AuditFile(str(tmp_path / "missing" / "audit.log"))
