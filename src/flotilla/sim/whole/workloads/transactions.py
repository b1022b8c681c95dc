"""Transactions over several topics: committed, aborted, abandoned, by clients that die; and workers that acknowledge
what they take from a queue together with what they make of it.

When all is calm a resolver ends what nobody has decided: its abort is either accepted, or says that the transaction was
committed. So at the end every transaction has a known outcome.
"""

import asyncio
from random import Random
from typing import Any, Final

from flotilla.client.async_client import AsyncClient
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.sim.whole.history import DONE, OPEN, UNKNOWN, Call
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import Contents, judge_contents, read_contents
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS, Producers
from flotilla.sim.whole.workloads.transactions_judge import ABORTED, COMMITTED, judge_transactions
from flotilla.types.errors import FlotillaError, OutcomeUnknownError, TransactionEndedError

#: What workers take, and where transactions write, with the partitions of each.
INPUT: Final = "txn-in"
OUTPUTS: Final = {"txn-a": 2, "txn-b": 1}
GROUP: Final = "txn-workers"
_INPUT_PARTITIONS: Final = 2
_WRITERS: Final = 2
_WORKERS: Final = 2
_LIFE_S: Final = 15
_VISIBILITY_MS: Final = 4_000
#: How often a commit of unknown outcome is repeated by its client.
_REPEATS: Final = 2
_LEAVES: Final = 0.03


class TransactionsWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._producers = Producers(simulation, INPUT, partitions=_INPUT_PARTITIONS, count=1, think_s=0.25)
        self._writers = [
            Lives(simulation, f"txn-writer-{number}", self._write, life_s=_LIFE_S) for number in range(1, _WRITERS + 1)
        ]
        self._workers = [
            Lives(simulation, f"txn-worker-{number}", self._work, life_s=_LIFE_S) for number in range(1, _WORKERS + 1)
        ]
        self._is_calm = False
        #: The group has settled every input.
        self._is_drained = False
        self._missing = ""
        self._inputs: Contents | None = None
        self._outputs: dict[str, Contents] = {}

    async def prepare(self, client: AsyncClient) -> None:
        # No message is to become a dead letter: its workers die, and it is not to blame.
        await client.create_topic(
            INPUT, partitions=_INPUT_PARTITIONS, if_not_exists=True, max_deliveries=1_000, nack_backoff_max_ms=1_000
        )
        for topic, partitions in OUTPUTS.items():
            await client.create_topic(topic, partitions=partitions, if_not_exists=True)

    def start(self) -> None:
        self._producers.start()
        for lives in (*self._writers, *self._workers):
            lives.start()

    def calm(self) -> None:
        self._is_calm = True
        self._producers.calm()
        for lives in (*self._writers, *self._workers):
            lives.calm()
        self._simulation.client("txn-resolver", self._resolve)

    def is_done(self) -> bool:
        return self._inputs is not None

    def describe(self) -> str:
        return f"{self._producers.running} producers, drained: {self._is_drained}, {self._missing}"

    def judge(self) -> None:
        assert self._inputs is not None
        judge_contents(INPUT, self._producers.calls(), self._inputs)
        judge_transactions(self._history.calls, self._inputs, self._outputs)

    # Those who write.

    async def _write(self, life: str) -> None:
        chance = self._simulation.stream(life)
        number = 0
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=life) as client:
            while not self._is_calm and chance.random() >= _LEAVES:
                await asyncio.sleep(chance.random() * 0.5)
                number += 1
                intent = chance.choice(("commit", "commit", "commit", "abort", "abandon"))
                transaction = client.transaction(f"{life}-{number}")
                call = self._begin(life, transaction, intent)
                if not await self._fill(call, transaction, chance):
                    continue
                if intent == "commit":
                    await self._commit(call, transaction)
                elif intent == "abort":
                    await self._abort(call, transaction)

    def _begin(self, life: str, transaction: AsyncTransaction, intent: str, **more: Any) -> Call:
        name = transaction.transaction_id
        return self._history.begin(life, "transaction", id=name, intent=intent, records=[], partitions=[], **more)

    async def _fill(self, call: Call, transaction: AsyncTransaction, chance: Random) -> bool:
        """Adds some records. False: that failed, and the transaction is given up."""
        places = [(topic, partition) for topic, count in OUTPUTS.items() for partition in range(count)]
        total = 1 if "input" in call.arguments else chance.randint(1, 5)
        try:
            for each in range(total):
                topic, partition = chance.choice(places)
                payload = f"{transaction.transaction_id}/{each}/{total}"
                call.arguments["records"].append((topic, partition, payload))
                if (topic, partition) not in call.arguments["partitions"]:
                    call.arguments["partitions"].append((topic, partition))
                if chance.random() < 0.5:
                    # Staged with the commit, at the latest.
                    await transaction.produce(topic, payload.encode(), partition=partition)
                else:
                    await transaction.stage(topic, [payload.encode()], partition=partition)
        except FlotillaError:
            await self._abort(call, transaction)
            return False
        return True

    async def _abort(self, call: Call, transaction: AsyncTransaction) -> None:
        try:
            await transaction.abort()
        except FlotillaError as error:
            self._history.failed(call, error)
            # What was staged stays until somebody decides.
            call.outcome = UNKNOWN
        else:
            self._history.done(call, state=ABORTED)

    async def _commit(self, call: Call, transaction: AsyncTransaction) -> bool:
        """False: it is not committed, as far as is known."""
        for _ in range(_REPEATS + 1):
            try:
                await transaction.commit()
            except OutcomeUnknownError as error:
                self._simulation.note("commit of unknown outcome")
                self._history.failed(call, error)
            except FlotillaError as error:
                self._history.failed(call, error)
                return False
            else:
                receipts = [(receipt.topic, receipt.partition, receipt.offset) for receipt in transaction.receipts]
                self._history.done(call, state=COMMITTED, receipts=receipts)
                return True
        return False

    # Those who take, make, and acknowledge.

    async def _work(self, life: str) -> None:
        chance = self._simulation.stream(life)
        number = 0
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=life) as client:
            consumer = client.queue(INPUT, GROUP, visibility_ms=_VISIBILITY_MS)
            while not self._is_drained and (self._is_calm or chance.random() >= _LEAVES):
                try:
                    messages = await consumer.poll(4, wait_ms=1_000)
                except FlotillaError:
                    continue
                for message in messages:
                    number += 1
                    transaction = client.transaction(f"{life}-{number}")
                    payload = message.payload.decode()
                    call = self._begin(life, transaction, "commit", input=payload)
                    call.arguments["partitions"].append((INPUT, message.partition))
                    try:
                        await transaction.ack(message)
                    except FlotillaError as error:
                        self._history.failed(call, error)
                        continue
                    is_filled = await self._fill(call, transaction, chance)
                    await asyncio.sleep(chance.random() * 0.05)
                    if is_filled and await self._commit(call, transaction):
                        continue
                    try:
                        # Where the acknowledgement was not staged, the message is still ours.
                        await message.release()
                    except FlotillaError:
                        continue
            try:
                await consumer.close()
            except FlotillaError:
                # What it had goes to others when its leases end.
                return

    # The end.

    async def _resolve(self) -> None:
        lives = {each.name: each for each in (*self._writers, *self._workers)}
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name="txn-resolver") as client:
            while True:
                working = [each.life for each in lives.values() if not each.is_over]
                for call in self._undecided(working):
                    await self._end(client, call)
                if self._is_drained and not working:
                    break
                await asyncio.sleep(0.5)
                self._is_drained = self._is_drained or await self._find_drained(client)
            outputs = {topic: await read_contents(client, topic, count) for topic, count in OUTPUTS.items()}
            self._outputs = outputs
            self._inputs = await read_contents(client, INPUT, _INPUT_PARTITIONS)

    def _undecided(self, working: list[str]) -> list[Call]:
        """Transactions that nobody works on any more, and whose outcome nobody knows."""
        resolved = {call.arguments["id"] for call in self._history.of("resolve-transaction") if call.outcome == DONE}
        return [
            call
            for call in self._history.of("transaction")
            if call.outcome in (OPEN, UNKNOWN)
            and call.arguments["id"] not in resolved
            and (call.outcome == UNKNOWN or call.client not in working or call.arguments["intent"] == "abandon")
        ]

    async def _end(self, client: AsyncClient, undecided: Call) -> None:
        name, partitions = undecided.arguments["id"], undecided.arguments["partitions"]
        call = self._history.begin("txn-resolver", "resolve-transaction", id=name)
        self._missing = f"{name} is undecided"
        try:
            await client.abort_transaction(name, partitions=partitions)
            state = ABORTED
        except TransactionEndedError:
            state = COMMITTED
        except FlotillaError as error:
            self._history.failed(call, error)
            return
        try:
            if state == COMMITTED:
                # Returns when everything is visible.
                await client.commit_transaction(name, partitions=partitions)
        except FlotillaError as error:
            self._history.failed(call, error)
            return
        if state == COMMITTED:
            self._simulation.note("left transaction was committed")
        else:
            self._simulation.note("left transaction was aborted")
        self._history.done(call, state=state)

    async def _find_drained(self, client: AsyncClient) -> bool:
        """Every input is produced, and settled."""
        if self._producers.running:
            return False
        try:
            found = await client.describe_group(INPUT, GROUP)
        except FlotillaError:
            return False
        self._missing = f"{found.lag} inputs are left, {found.leased} leased"
        return not found.lag
