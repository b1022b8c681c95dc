"""The audit log: which requests count as log-ins."""

from flotilla.broker.security import audit as audit_module
from flotilla.broker.security.audit import LOG_IN_MS, Audit
from flotilla.machine import Machine, enter
from flotilla.types.access import USER, Principal

ANNA = Principal(USER, "anna")


class Clock(Machine):
    ms = 0

    def steady_ms(self) -> int:
        return self.ms


def test_requests_of_one_caller_from_one_address_are_one_log_in_for_a_while(caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    clock = Clock()
    before = enter(clock)
    try:
        audit = Audit(lambda: 0)
        for port in range(100):
            audit.proved(ANNA, "bearer", "http", f"10.0.0.1:{port}")
        assert [record.fields["address"] for record in caplog.records] == ["10.0.0.1:0"]
        audit.proved(ANNA, "certificate", "http", "10.0.0.1:1")
        audit.proved(ANNA, "bearer", "grpc", "10.0.0.1:1")
        audit.proved(ANNA, "bearer", "http", "10.0.0.2:1")
        assert len(caplog.records) == 4
        clock.ms = LOG_IN_MS - 1
        audit.proved(ANNA, "bearer", "http", "10.0.0.1:1")
        assert len(caplog.records) == 4
        clock.ms = LOG_IN_MS
        audit.proved(ANNA, "bearer", "http", "10.0.0.1:1")
        assert len(caplog.records) == 5
    finally:
        enter(before)


def test_a_log_in_that_counts_in_any_case_has_a_line_each_time(caplog):
    caplog.set_level("INFO", logger="flotilla.audit")
    audit = Audit(lambda: 0)
    for _ in range(2):
        audit.proved_anew(ANNA, "session", "http", "10.0.0.1:1")
    audit.proved(ANNA, "session", "http", "10.0.0.1:1")
    assert len(caplog.records) == 2


def test_log_ins_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(audit_module, "LOG_IN_COUNT_MAX", 3)
    audit = Audit(lambda: 0)
    for number in range(10):
        audit.proved(ANNA, "bearer", "http", f"10.0.0.{number}:1")
    assert [key[3] for key in audit._log_ins] == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
