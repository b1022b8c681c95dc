"""Authentication of one node, put together: log-ins, the guard, and what a node itself proves to others."""

from collections.abc import Callable

from flotilla.broker.catalog import CatalogMachine
from flotilla.broker.ports import Service
from flotilla.broker.security.audit import Audit
from flotilla.broker.security.authentication import Authentication, Tokens, node_password
from flotilla.broker.security.entrance import Entrance, Later
from flotilla.broker.security.guard import Guard
from flotilla.security.join_secret import JoinSecret
from flotilla.types.access import ANONYMOUS, ANYONE, NODE_PREFIX, Principal
from flotilla.types.address import Address
from flotilla.types.ids import NodeId


class Gate:
    """Exists where the setting `authentication` is on."""

    def __init__(
        self,
        service: Service,
        machine: CatalogMachine,
        later: Later,
        now_ms: Callable[[], int],
        tokens: Tokens | None = None,
        join_secret: JoinSecret | None = None,
        *,
        has_anonymous: bool = False,
    ) -> None:
        """`now_ms` is the cluster's clock. `has_anonymous`: whoever does not log in is a user, too."""
        self._later = later
        self.authentication = Authentication(machine, tokens, join_secret)
        self.guard = Guard(service, machine, Audit(lambda: machine.applied), now_ms)
        self.guard.stranger = ANYONE if has_anonymous else ANONYMOUS

    def entrance(self, address: Address | None, certificate: Principal | None, is_encrypted: bool) -> Entrance:
        """Of a TCP connection."""
        return Entrance(
            self.guard, self.authentication, "tcp", address, certificate, self._later, is_encrypted=is_encrypted
        )


def node_credentials(machine: CatalogMachine, node: NodeId) -> tuple[str, str] | None:
    """The name and the password by which a node proves itself; None: the cluster has no secret yet."""
    secret = machine.state.security.secret
    return (f"{NODE_PREFIX}{node}", node_password(secret)) if secret else None
