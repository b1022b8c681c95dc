"""The descriptors of a process and how they are divided."""

import resource

import pytest

from flotilla.machine import here
from flotilla.runtime.descriptors import (
    LIMIT_MIN,
    RESERVE,
    budget_descriptors,
    raise_descriptor_limit,
)
from flotilla.types.errors import InvalidArgumentError


@pytest.mark.parametrize("has_grpc", [True, False])
@pytest.mark.parametrize("segments_max", [16, 256, 65_536])
@pytest.mark.parametrize("limit", [LIMIT_MIN, 256, 1_024, 65_536, 1 << 20])
def test_the_shares_fit_into_the_limit_and_none_is_empty(limit: int, segments_max: int, *, has_grpc: bool) -> None:
    budget = budget_descriptors(limit, segments_max=segments_max, has_grpc=has_grpc)
    assert RESERVE + budget.segments + budget.peers + budget.grpc + budget.status + budget.clients == limit
    assert min(budget.segments, budget.peers) >= 8
    assert budget.segments <= segments_max
    assert budget.clients >= 12
    assert 1 <= budget.status <= 64
    assert bool(budget.grpc) is has_grpc
    assert budget.grpc <= 1_024


def test_a_process_that_may_open_too_little_is_told_what_to_raise() -> None:
    with pytest.raises(InvalidArgumentError, match=r"may open 100 .* at least 192.*ulimit -n"):
        budget_descriptors(100, segments_max=256, has_grpc=True)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        assert here().descriptors_max() == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_that_the_system_does_not_raise_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_descriptor_limit()
    assert here().descriptors_max() == 256
