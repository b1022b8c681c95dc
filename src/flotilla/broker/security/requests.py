"""The operations on users, grants and quotas, at the metadata's leader."""

from collections.abc import Callable, Iterable
from typing import Final

from flotilla.broker.catalog import METADATA_GROUP, Catalog
from flotilla.broker.ports import Consensus, Done, Outside
from flotilla.broker.security.quotas import Meter
from flotilla.machine import here
from flotilla.metadata.commands import Command
from flotilla.metadata.queries import DescribeCluster
from flotilla.metadata.security.commands import (
    PutAdministrator,
    PutGrant,
    PutQuota,
    PutRole,
    PutSecret,
    PutUser,
    RemoveGrant,
    RemoveRole,
    RemoveUser,
)
from flotilla.metadata.security.commands import RemoveQuota as RemoveQuotaCommand
from flotilla.metadata.security.users import SECRET_BYTES, SecurityTable
from flotilla.types.errors import AlreadyExistsError, FlotillaError, UnavailableError
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations import Reply
from flotilla.types.operations.quotas import ListQuotas, QuotaList, QuotaUsage, RemoveQuota, SetQuota
from flotilla.types.operations.security import (
    AssignRole,
    CreateAdministrator,
    CreateUser,
    DeleteUser,
    GrantAccess,
    GrantList,
    ListGrants,
    ListRoles,
    ListUsers,
    RevokeAccess,
    RoleList,
    RoleOfUser,
    SetPassword,
    UnassignRole,
    UserInfo,
    UserList,
)

#: How long the first user may take, how often it is looked for, and how often it is asked for again.
_LOOK_MS: Final = 20
_LOOK_COUNT: Final = 400
_LOOKS_PER_TRY: Final = 50


class Users:
    def __init__(self, catalog: Catalog, consensus: Consensus, outside: Outside) -> None:
        self._catalog = catalog
        self._consensus = consensus
        self._outside = outside
        #: What users and namespaces with a quota use at this node; none where authentication is off.
        self.meters: Callable[[], Iterable[Meter]] = lambda: ()

    def create_user(self, request: CreateUser, done: Done) -> None:
        self._propose(PutUser(request.name, request.verifier, True, self._outside.now_ms()), done)

    def set_password(self, request: SetPassword, done: Done) -> None:
        self._propose(PutUser(request.name, request.verifier, False, self._outside.now_ms()), done)

    def delete_user(self, request: DeleteUser, done: Done) -> None:
        self._propose(RemoveUser(request.name, self._outside.now_ms()), done)

    def create_administrator(self, request: CreateAdministrator, done: Done) -> None:
        """At any node: whoever founds a cluster is on the machine of one, and that need not lead."""
        if not self._catalog.cluster_id:
            raise UnavailableError("the node is not part of a cluster yet")
        command = PutAdministrator(request.name, request.verifier, self._outside.now_ms())
        known = self._catalog.machine.state.security.users.get(request.name)
        if known is None or known.verifier != request.verifier:
            self._catalog.check(command)
        if not self._catalog.machine.state.security.secret:
            # Before any node asks who its clients are: then all of them can prove themselves to the first that does.
            self._catalog.forward(PutSecret(here().secret(SECRET_BYTES), self._outside.now_ms()))

        def look(number: int) -> None:
            table = self._catalog.machine.state.security
            user = table.users.get(request.name)
            if user is not None and user.verifier == request.verifier:
                done(DoneReply())
            elif table.version:
                done(AlreadyExistsError("the cluster has users already"))
            elif number == _LOOK_COUNT:
                done(UnavailableError("the metadata have no leader that creates the user"))
            else:
                if number % _LOOKS_PER_TRY == 0:
                    self._catalog.forward(command)
                self._outside.later(_LOOK_MS, lambda: look(number + 1))

        look(0)

    def grant_access(self, request: GrantAccess, done: Done) -> None:
        self._propose(PutGrant(request.grant, self._outside.now_ms()), done)

    def revoke_access(self, request: RevokeAccess, done: Done) -> None:
        self._propose(RemoveGrant(request.grant, self._outside.now_ms()), done)

    def assign_role(self, request: AssignRole, done: Done) -> None:
        self._propose(PutRole(request.user, request.role, self._outside.now_ms()), done)

    def unassign_role(self, request: UnassignRole, done: Done) -> None:
        self._propose(RemoveRole(request.user, request.role, self._outside.now_ms()), done)

    def list_roles(self, _: ListRoles, done: Done) -> None:
        self._read(lambda table: RoleList([RoleOfUser(*each) for each in table.all_roles()]), done)

    def set_quota(self, request: SetQuota, done: Done) -> None:
        self._propose(PutQuota(request.quota, self._outside.now_ms()), done)

    def remove_quota(self, request: RemoveQuota, done: Done) -> None:
        self._propose(RemoveQuotaCommand(request.user, request.namespace, self._outside.now_ms()), done)

    def list_quotas(self, _: ListQuotas, done: Done) -> None:
        def listed(table: SecurityTable) -> Reply:
            state = self._catalog.machine.state
            stored = {meter.quota: meter.stored_bytes for meter in self.meters()}
            quotas = table.quotas.all()
            return QuotaList(
                quotas, [QuotaUsage(state.partitions_under(quota), stored.get(quota, 0)) for quota in quotas]
            )

        self._read(listed, done)

    def list_users(self, _: ListUsers, done: Done) -> None:
        def listed(table: SecurityTable) -> Reply:
            users = [user for _, user in sorted(table.users.items())]
            return UserList([UserInfo(user.name, user.created_ms, user.password_ms) for user in users])

        self._read(listed, done)

    def list_grants(self, request: ListGrants, done: Done) -> None:
        def listed(table: SecurityTable) -> Reply:
            return GrantList(list(table.in_force(request.user)) if request.user else table.all_grants())

        self._read(listed, done)

    def _read(self, answer: Callable[[SecurityTable], Reply], done: Done) -> None:
        """Confirmed by a quorum, so that a leader which was replaced does not answer."""
        self._catalog.leading()

        def confirmed(result: object) -> None:
            if isinstance(result, FlotillaError):
                done(self._catalog.explain(result))
            else:
                done(answer(self._catalog.machine.state.security))

        self._consensus.read(METADATA_GROUP, DescribeCluster(), confirmed)

    def _propose(self, command: Command, done: Done) -> None:
        def answered(result: object) -> None:
            done(self._catalog.explain(result) if isinstance(result, FlotillaError) else DoneReply())

        self._catalog.propose(command, answered)
