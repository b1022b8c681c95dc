"""Every kind of request, at every endpoint that offers it: by nobody, without a grant, with a wrong and the right one.

A kind without a row fails the test. The requests are those of the conformance scenarios' endpoints, so TCP, HTTP and
gRPC are asked in their own words.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from flotilla.client.client import Client
from flotilla.client.credentials import Password
from flotilla.codec.batch.records import encode_batch
from flotilla.server import Server
from flotilla.testing import LocalBroker
from flotilla.types import operations as ops
from flotilla.types.access import (
    ACTIONS,
    ALL,
    ANYBODY,
    DESCRIBE,
    FOUND,
    MANAGE,
    NODES,
    OPERATE,
    PRODUCE,
    SCHEDULE,
    TAKE_PART,
    Grant,
    Verifier,
)
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Request, queue
from flotilla.types.operations.cluster import (
    CountPartitions,
    DescribeNode,
    DescribeReplicas,
    EnterCluster,
    ListClients,
    ReadHistory,
)
from flotilla.types.operations.pipelines import ListPipelines, Pipeline, ReportPipeline
from flotilla.types.operations.quotas import Quota
from flotilla.types.operations.waiting import DeliverNow, ListBlockedKeys, ListDelayed, ReadDueTimes
from flotilla.types.records import Record
from tests.conformance import endpoints
from tests.conformance.grpc_endpoint import _CALLS
from tests.unit.frontends.test_authentication import ADMIN, ANY_PORT, basic

pytestmark = pytest.mark.slow

TOPIC, GROUP = "secret", "g"
VERIFIER = Verifier(b"0123456789abcdef", 4_096, b"s" * 32, b"k" * 32)
GRANT = Grant("nobody", MANAGE, "none")
LEASES = [queue.LeaseRange(1, 0, 1)]
#: A request of each kind. `where` is the endpoint: what is used up by one is another thing at the next.
ROWS: dict[type[Request], Callable[[str], Request]] = {
    ops.AbortTransaction: lambda where: ops.AbortTransaction(f"tx-{where}", [(TOPIC, 0)]),
    ops.AlterGroup: lambda where: ops.AlterGroup(TOPIC, GROUP, {"max_deliveries": "7"}),
    ops.AlterTopic: lambda where: ops.AlterTopic(TOPIC, settings={"max_deliveries": "7"}),
    ops.AssignRole: lambda where: ops.AssignRole("nobody", "none"),
    ops.CancelMoves: lambda where: ops.CancelMoves([]),
    ops.CancelRecords: lambda where: ops.CancelRecords(TOPIC, 0, [0]),
    ops.ClaimPartition: lambda where: ops.ClaimPartition(GROUP, TOPIC, 0, 1),
    ops.CommitOffset: lambda where: ops.CommitOffset("stream", TOPIC, 0, 0),
    ops.CommitTransaction: lambda where: ops.CommitTransaction(f"commit-{where}", [(TOPIC, 0)]),
    ops.CreateAdministrator: lambda where: ops.CreateAdministrator("other", VERIFIER),
    ops.CreateJoinToken: lambda where: ops.CreateJoinToken(b"t" * 32, 1_000),
    ops.CreateSchedule: lambda where: ops.CreateSchedule(f"new-{where}", ops.ScheduleDefinition(TOPIC, "0 3 * * *")),
    ops.CreateTopic: lambda where: ops.CreateTopic(f"secret.new-{where}"),
    ops.CreateUser: lambda where: ops.CreateUser(f"new-{where}", VERIFIER),
    ops.DeleteGroup: lambda where: ops.DeleteGroup(TOPIC, 0, "gone"),
    ops.DeleteSchedule: lambda where: ops.DeleteSchedule(f"new-{where}"),
    ops.DeleteTopic: lambda where: ops.DeleteTopic(f"secret.gone-{where}"),
    ops.DeleteUser: lambda where: ops.DeleteUser("nobody"),
    ops.DescribeGroup: lambda where: ops.DescribeGroup(TOPIC, 0, GROUP),
    DescribeNode: lambda where: DescribeNode(),
    DescribeReplicas: lambda where: DescribeReplicas(TOPIC, 0),
    ops.DescribeStreamGroup: lambda where: ops.DescribeStreamGroup(TOPIC, GROUP),
    ops.DrainNode: lambda where: ops.DrainNode(99),
    ops.UpgradeCluster: lambda where: ops.UpgradeCluster(),
    EnterCluster: lambda where: EnterCluster([]),
    ops.ExpireGroup: lambda where: ops.ExpireGroup(TOPIC, 0, GROUP, 1),
    ops.ExplainMessage: lambda where: ops.ExplainMessage(TOPIC, 0, 0, GROUP),
    ops.Extend: lambda where: ops.Extend(TOPIC, 0, GROUP, "m", LEASES, 1_000),
    ops.FenceGroup: lambda where: ops.FenceGroup(TOPIC, GROUP),
    ops.Fetch: lambda where: ops.Fetch(TOPIC, 0, 0, 1_000),
    ops.ForgetGroup: lambda where: ops.ForgetGroup(TOPIC, "gone"),
    ops.ForgetTransaction: lambda where: ops.ForgetTransaction("none"),
    ops.GetMetadata: lambda where: ops.GetMetadata([TOPIC]),
    ops.GrantAccess: lambda where: ops.GrantAccess(GRANT),
    ops.Heartbeat: lambda where: ops.Heartbeat(TOPIC, GROUP, "m", 1),
    ops.HoldSettlements: lambda where: ops.HoldSettlements("other", 0),
    ops.InitCluster: lambda where: ops.InitCluster({}),
    ops.JoinCluster: lambda where: ops.JoinCluster(99, "127.0.0.1:1", "127.0.0.1:1"),
    ops.JoinGroup: lambda where: ops.JoinGroup(TOPIC, GROUP, "m"),
    ops.LeaveGroup: lambda where: ops.LeaveGroup(TOPIC, GROUP, "m"),
    ops.LeaveQueue: lambda where: ops.LeaveQueue(TOPIC, GROUP, "m", 0),
    ListClients: lambda where: ListClients(),
    ops.ListGrants: lambda where: ops.ListGrants(),
    ops.ListGroups: lambda where: ops.ListGroups(TOPIC, 0),
    ops.ListOffsets: lambda where: ops.ListOffsets(TOPIC, 0, ops.EARLIEST),
    ops.ListOpenTransactions: lambda where: ops.ListOpenTransactions(TOPIC, 0),
    ListPipelines: lambda where: ListPipelines(),
    ops.ListQuotas: lambda where: ops.ListQuotas(),
    ops.ListRoles: lambda where: ops.ListRoles(),
    ops.ListSchedules: lambda where: ops.ListSchedules(),
    ops.ListStreamGroups: lambda where: ops.ListStreamGroups(TOPIC),
    ops.ListTransactions: lambda where: ops.ListTransactions(),
    ops.ListUsers: lambda where: ops.ListUsers(),
    ops.PauseSchedule: lambda where: ops.PauseSchedule("nightly"),
    ops.Poll: lambda where: ops.Poll(TOPIC, GROUP, "m"),
    ops.Produce: lambda where: ops.Produce(TOPIC, 0, encode_batch([Record(b"1")])),
    ReadHistory: lambda where: ReadHistory(),
    CountPartitions: lambda where: CountPartitions(),
    ReadDueTimes: lambda where: ReadDueTimes(TOPIC, 0, GROUP),
    ListDelayed: lambda where: ListDelayed(TOPIC, 0, GROUP),
    DeliverNow: lambda where: DeliverNow(TOPIC, 0, [0], GROUP),
    ListBlockedKeys: lambda where: ListBlockedKeys(TOPIC, 0, GROUP),
    ops.ReadLog: lambda where: ops.ReadLog(TOPIC, 0),
    ops.ReadSnapshot: lambda where: ops.ReadSnapshot(TOPIC, 0, 1, 0),
    ops.ReadOffset: lambda where: ops.ReadOffset("stream", TOPIC, 0),
    ops.ReadResults: lambda where: ops.ReadResults(TOPIC, 0, GROUP, [0]),
    ops.Rebalance: lambda where: ops.Rebalance(is_dry_run=True),
    ops.RemoveNode: lambda where: ops.RemoveNode(99),
    ops.RemoveQuota: lambda where: ops.RemoveQuota("nobody"),
    ops.ResetGroup: lambda where: ops.ResetGroup(TOPIC, 0, GROUP, ops.Start(ops.EARLIEST)),
    ReportPipeline: lambda where: ReportPipeline(Pipeline(f"p-{where}", "", [TOPIC])),
    ops.RevokeAccess: lambda where: ops.RevokeAccess(GRANT),
    ops.RunSchedule: lambda where: ops.RunSchedule("nightly"),
    ops.SetPassword: lambda where: ops.SetPassword("nobody", VERIFIER),
    ops.SetQuota: lambda where: ops.SetQuota(Quota("nobody", requests_per_second=1)),
    ops.Settle: lambda where: ops.Settle(TOPIC, 0, GROUP, queue.ACK, LEASES),
    ops.Stage: lambda where: ops.Stage(
        TOPIC, 0, f"tx-{where}", encode_batch([Record(b"1")], producer_id=7, producer_epoch=1, sequence=0)
    ),
    ops.StageSettlement: lambda where: ops.StageSettlement(TOPIC, 0, GROUP, f"tx-{where}", LEASES),
    ops.Subscribe: lambda where: ops.Subscribe(TOPIC, GROUP, "s", 1),
    ops.TakeTokens: lambda where: ops.TakeTokens(TOPIC, GROUP, 1),
    ops.TransactionOutcome: lambda where: ops.TransactionOutcome(TOPIC, 0, "none"),
    ops.TransferLeadership: lambda where: ops.TransferLeadership(TOPIC, 0),
    ops.TrimPartition: lambda where: ops.TrimPartition(TOPIC, 0, 0),
    ops.UnassignRole: lambda where: ops.UnassignRole("nobody", "none"),
}
#: A schedule and a user must be there before they are changed.
LAST = (ops.DeleteSchedule, ops.RevokeAccess, ops.UnassignRole, ops.RemoveQuota)
REFUSED = ("PERMISSION_DENIED", "NOT_FOUND")


def grants_for(request: Request) -> list[tuple[str, str, str]]:
    """Exactly what the request needs: action, topic and group."""
    right = request.needs
    if right in (ANYBODY, NODES):
        return [(action, ALL, ALL) for action in ACTIONS] if right == NODES else [(DESCRIBE, TOPIC, ALL)]
    if right in (OPERATE, FOUND):
        return [(OPERATE, ALL, ALL)]
    if right == SCHEDULE or type(request) in (ops.PauseSchedule, ops.DeleteSchedule):
        actions = (MANAGE, PRODUCE) if right == SCHEDULE else (MANAGE,)
        return [(action, TOPIC, ALL) for action in actions]
    action = PRODUCE if right == TAKE_PART else right
    return [(action, each.topic, ALL if action == PRODUCE else each.group or ALL) for each in request.resources]


def name_of(grants: list[tuple[str, str, str]]) -> str:
    """Of the user who has exactly these grants."""
    text = "-".join(".".join(each) for each in grants)
    return "right-" + text.replace("*", "all") if len(grants) < 4 else "everything"


class TcpCaller(endpoints.Tcp):
    def offers(self, kind: type[Request]) -> bool:
        return True


class GatewayCaller(TcpCaller):
    """A client that says that it is a gateway, as any client may."""

    def __init__(self, server: Server, credentials: Password | None) -> None:
        super().__init__(server, credentials)
        self._connection.greet = partial(self._connection.greet, is_gateway=True)  # type: ignore[method-assign]


class HttpCaller(endpoints.Http):
    def __init__(self, server: Server, credentials: Password | None) -> None:
        super().__init__(server)
        self._credentials = credentials

    async def open(self) -> None:
        await super().open()
        if self._credentials is not None:
            self._client.headers.update(basic(self._credentials))

    def offers(self, kind: type[Request]) -> bool:
        return kind in self._asks


class GrpcCaller(endpoints.Grpc):
    def __init__(self, server: Server, credentials: Password | None) -> None:
        super().__init__(server)
        self._credentials = credentials

    async def open(self) -> None:
        await super().open()
        if self._credentials is not None:
            self._stub = _WithMetadata(self._stub, (("authorization", basic(self._credentials)["Authorization"]),))

    def offers(self, kind: type[Request]) -> bool:
        return kind in _CALLS


class _WithMetadata:
    def __init__(self, stub: Any, metadata: tuple[tuple[str, str], ...]) -> None:
        self._stub = stub
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stub, name)
        return lambda request, **options: method(request, metadata=self._metadata, **options)


CALLERS: dict[str, type[Any]] = {"tcp": TcpCaller, "gateway": GatewayCaller, "http": HttpCaller, "grpc": GrpcCaller}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(authentication=True, http_listen=ANY_PORT, grpc_listen=ANY_PORT) as started:
        with started.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with started.client(credentials=ADMIN) as admin:
            prepare(admin)
        yield started


def prepare(admin: Client) -> None:
    for topic in (TOPIC, "other", *[f"secret.gone-{where}" for where in CALLERS]):
        admin.create_topic(topic)
    admin.produce(TOPIC, b"1")
    admin.admin.report_pipeline(Pipeline("p", "", [TOPIC]))
    admin.schedules.create("nightly", TOPIC, cron="0 3 * * *")
    with admin.queue(TOPIC, group=GROUP) as consumer:
        assert consumer.poll()
    admin.admin.users.create("none", "pencil")
    admin.admin.users.create("wrong", "pencil")
    for action in ACTIONS:
        if action != OPERATE:
            admin.admin.grants.add("wrong", action, "other")
    needed = [grants_for(make(where)) for where in CALLERS for make in ROWS.values()]
    for name, grants in {name_of(each): each for each in needed}.items():
        admin.admin.users.create(name, "pencil")
        for grant in grants:
            admin.admin.grants.add(name, *grant)  # type: ignore[arg-type]


def test_every_kind_of_request_has_a_row():
    assert {kind for kind in ops.OPERATIONS.values() if not kind.is_for_endpoint} == set(ROWS)


@pytest.mark.parametrize("where", CALLERS)
def test_every_request_by_nobody_without_a_wrong_and_the_right_grant(broker, where):
    kinds = [kind for kind in ROWS if kind not in LAST] + [*LAST]

    async def play() -> int:
        callers: dict[str, Any] = {}
        try:

            async def outcome(name: str, request: Request) -> Any:
                if name not in callers:
                    made = CALLERS[where](broker._server, None if name == "nobody" else Password(name, "pencil"))
                    await made.open()
                    callers[name] = made
                async with asyncio.timeout(20):
                    return await callers[name].call(request)

            offered = CALLERS[where](broker._server, None).offers
            asked = [kind for kind in kinds if offered(kind)]
            for kind in asked:
                await check(outcome, ROWS[kind](where))
            return len(asked)
        finally:
            for caller in callers.values():
                await caller.close()

    assert asyncio.run(play()) >= {"tcp": len(ROWS), "gateway": len(ROWS), "http": 20, "grpc": 35}[where]


def test_connected_clients_are_named_with_their_users_at_every_endpoint(broker):
    async def parked() -> list[tuple[str, str, str, int]]:
        """While a poll waits over gRPC."""
        grpc = GrpcCaller(broker._server, Password("everything", "pencil"))
        await grpc.open()
        poll = asyncio.ensure_future(grpc.call(ops.Poll(TOPIC, "empty", "m", wait_ms=20_000, types=["none"])))
        http = HttpCaller(broker._server, ADMIN)
        await http.open()
        try:
            while True:
                answer = (await http._client.get("/v1/cluster/clients")).json()
                found = [(*[each[key] for key in KEYS], each["in_flight"]) for each in answer["clients"]]
                if {each[0] for each in found} == {"tcp", "http", "grpc"}:
                    one = (await http._client.get("/v1/cluster/clients?limit=1")).json()
                    assert (len(one["clients"]), one["total"], answer["total"]) == (1, len(found), len(found))
                    page = (await http._client.get("/metrics")).text
                    for endpoint in ("http", "grpc"):
                        assert f'flotilla_connected_clients{{endpoint="{endpoint}"}} 1\n' in page
                    return found
        finally:
            poll.cancel()
            await grpc.close()
            await http.close()

    with broker.client(credentials=ADMIN, name="boss") as boss:
        boss.topics()
        found = asyncio.run(parked())
        # The call over gRPC has ended.
        while any(each.endpoint == "grpc" for each in boss.admin.connected_clients().clients):
            pass
    assert [each[2:] for each in found if each[0] == "tcp" and each[1].endswith(" boss")] == [("user root", 0)]
    assert [each[2:] for each in found if each[0] == "http"] == [("user root", 1)]
    assert [each[2:] for each in found if each[0] == "grpc"] == [("user everything", 1)]
    assert all("grpc" in each[1] for each in found if each[0] == "grpc")


KEYS = ("endpoint", "name", "principal")


async def check(outcome: Callable[[str, Request], Any], request: Request) -> None:
    nobody = await outcome("nobody", request)
    assert isinstance(nobody, FlotillaError), request
    assert nobody.code == "UNAUTHENTICATED", (request, nobody)
    right = name_of(grants_for(request))
    if request.needs == ANYBODY:
        for name in ("none", "wrong"):
            assert TOPIC not in repr(await outcome(name, request)), (name, request)
        assert TOPIC in repr(await outcome(right, request)), request
        return
    for name in ("none", "wrong"):
        refused = await outcome(name, request)
        assert isinstance(refused, FlotillaError), (name, request)
        assert refused.code in REFUSED, (name, request, refused)
    done = await outcome(right, request)
    if request.needs == NODES:
        assert done.code == "PERMISSION_DENIED", (request, done)
    elif isinstance(done, FlotillaError):
        assert done.code not in ("PERMISSION_DENIED", "UNAUTHENTICATED"), (request, done)
        assert not str(done).startswith(("there is no topic", "there is no schedule")), (request, done)
