"""What a gateway tells its caller when an earlier attempt of a settlement had no answer."""

import pytest

from flotilla.client._core.calls import ClientCall
from flotilla.gateway.lease_forwarding import LeaseForwarding
from flotilla.types.operations.queue import ACK, FAIL, Extend, LeaseRange, Settle, Settled

HELD = [LeaseRange(7, 0, 3)]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (Settle("one", 0, "g", ACK, HELD), [LeaseRange(7, 0, 1), LeaseRange(7, 2, 3)]),
        (Settle("one", 0, "g", FAIL, HELD), []),
        (Extend("one", 0, "g", "m", HELD, 1_000), HELD),
    ],
)
def test_a_refusal_after_an_attempt_without_an_answer(request_: Settle | Extend, told: list[LeaseRange]) -> None:
    call = ClientCall(request_, 0, lambda result: None)
    call.is_unsure = True
    reply = Settled(list(HELD), [LeaseRange(7, 1, 2)])
    LeaseForwarding(lambda: None).answered(call, reply)
    assert reply.expired == told
