"""Transactions over several topics: committed, aborted, abandoned, by clients that die; jobs that number their commits
and repeat them; and workers that acknowledge what they take from a queue together with what they make of it. While a
long one is committed, ordinary records are produced into its partition.

When all is calm a resolver ends what nobody has decided: its abort is either accepted, or says that the transaction was
committed. So at the end every transaction has a known outcome.
"""

import asyncio
from contextlib import AbstractContextManager, suppress
from random import Random
from typing import Any, Final, Literal

from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueMessage
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.sim.whole.history import DONE, OPEN, UNKNOWN, Call
from flotilla.sim.whole.pace import think
from flotilla.sim.whole.simulation import Simulation
from flotilla.sim.whole.workloads.contents import Contents, judge_contents, read_contents
from flotilla.sim.whole.workloads.lives import Lives
from flotilla.sim.whole.workloads.producers import TIMEOUT_MS, Producers, produce_one, produces
from flotilla.sim.whole.workloads.transactions_judge import ABORTED, COMMITTED, judge_transactions, split_contents
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
#: What a writer and a worker mean to do with a transaction. A version is one of a job, which is committed once.
_OF_WRITERS: Final = ("commit", "commit", "version", "version", "abort", "abandon")
_OF_WORKERS: Final = (*["commit"] * 18, "abort", "abandon")
#: Batches of a writer, most of the time and sometimes: more than a log takes at once, all in one partition.
_BATCHES_MAX: Final = 5
_BATCHES: Final = 12
_LONG: Final = 0.1
#: How often a client does not wait for the answer to a stage, and for how long at the most.
_IMPATIENT: Final = 0.1
_IMPATIENCE_S: Final = 0.005
#: A worker sometimes takes longer than its leases and a change of leaders.
_HOLDS: Final = 0.05
_HOLD_S: Final = 4
_WORKER_TIMEOUT_MS: Final = 5_000
#: Of inputs. In some runs workers take those of one key one after the other.
_KEYS: Final = ("one", "two", "three", "four", "five", "six")
_ORDERED: Final = 0.5
#: Between two ordinary records that are produced during a commit, at the most.
_BESIDE_S: Final = 0.01


class TransactionsWorkload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._history = simulation.history
        self._producers = Producers(simulation, INPUT, partitions=_INPUT_PARTITIONS, count=1, keys=_KEYS, think_s=0.25)
        self._order: Literal["none", "key"] = "key" if simulation.stream(GROUP).random() < _ORDERED else "none"
        self._writers = [
            Lives(simulation, f"txn-writer-{number}", self._write, life_s=_LIFE_S) for number in range(1, _WRITERS + 1)
        ]
        self._workers = [
            Lives(simulation, f"txn-worker-{number}", self._work, life_s=_LIFE_S) for number in range(1, _WORKERS + 1)
        ]
        #: The version that each job commits next: it outlives the process, as a checkpoint does.
        self._versions: dict[str, int] = {}
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
        calls = self._history.calls
        made: dict[str, Contents] = {}
        for topic, contents in {**self._outputs, INPUT: self._inputs}.items():
            produced, made[topic] = split_contents(topic, self._history.of("transaction"), contents)
            judge_contents(topic, produces(calls, topic), produced)
        judge_transactions(calls, self._inputs, made)

    # Those who write.

    async def _write(self, life: str) -> None:
        chance = self._simulation.stream(life)
        number = 0
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=life) as client:
            while not self._is_calm and chance.random() >= _LEAVES:
                await think(chance, 0.25)
                number += 1
                intent = chance.choice(_OF_WRITERS)
                transaction = client.transaction(f"{life}-{number}")
                call = self._begin(life, transaction, intent)
                if intent == "version":
                    self._number(call, chance)
                places = [(topic, partition) for topic, count in OUTPUTS.items() for partition in range(count)]
                total = chance.randint(1, _BATCHES_MAX)
                is_long = chance.random() < _LONG
                if is_long:
                    places, total = [chance.choice(places)], _BATCHES
                if await self._fill(call, transaction, chance, places, total):
                    ending = asyncio.create_task(self._end_as_meant(call, transaction))
                    if is_long:
                        await self._produce_beside(client, call, chance, ending)
                    await ending

    async def _produce_beside(
        self, client: AsyncClient, call: Call, chance: Random, ending: asyncio.Task[bool]
    ) -> None:
        """Produces ordinary records into the partition of a transaction until it has ended."""
        [(topic, partition)] = call.arguments["partitions"]
        number = 0
        while not ending.done():
            number += 1
            payload = f"{call.arguments['id']}/beside/{number}"
            await produce_one(self._simulation, client, call.client, topic, payload, partition=partition)
            await asyncio.sleep(chance.random() * _BESIDE_S)

    def _number(self, call: Call, chance: Random) -> None:
        """A job that starts again commits what it may have committed before, or the last of it."""
        job = call.client.rpartition(".")[0]
        version = self._versions.setdefault(job, 1)
        call.arguments.update(application_id=job, version=max(version - chance.choice((0, 0, 1)), 1))

    def _begin(self, life: str, transaction: AsyncTransaction, intent: str, **more: Any) -> Call:
        name = transaction.transaction_id
        return self._history.begin(life, "transaction", id=name, intent=intent, records=[], partitions=[], **more)

    def _timed(self, call: Call, operation: str) -> AbstractContextManager[Call]:
        """A step of the transaction."""
        return self._history.timed(call.client, operation, TIMEOUT_MS, id=call.arguments["id"])

    async def _fill(
        self,
        call: Call,
        transaction: AsyncTransaction,
        chance: Random,
        places: list[tuple[str, int]],
        total: int,
        key: bytes | None = None,
    ) -> bool:
        """Adds some records. False: that failed, and the transaction is given up."""
        try:
            for each in range(total):
                topic, partition = chance.choice(places)
                payload = f"{transaction.transaction_id}/{each}/{total}"
                call.arguments["records"].append((topic, partition, payload))
                if (topic, partition) not in call.arguments["partitions"]:
                    call.arguments["partitions"].append((topic, partition))
                # Staged with the commit, at the latest.
                with self._timed(call, "stage"):
                    await transaction.produce(topic, payload.encode(), key=key, partition=partition)
                drawn = chance.random()
                if drawn < _IMPATIENT:
                    # What may be staged is staged again with the next one.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(chance.random() * _IMPATIENCE_S):
                            with self._timed(call, "stage"):
                                await transaction.stage(topic, [])
                elif drawn < 0.5:
                    with self._timed(call, "stage"):
                        await transaction.stage(topic, [])
        except FlotillaError:
            await self._abort(call, transaction)
            return False
        return True

    async def _end_as_meant(self, call: Call, transaction: AsyncTransaction) -> bool:
        """False: it is not committed, as far as is known."""
        if call.arguments["intent"] == "abort":
            await self._abort(call, transaction)
        elif call.arguments["intent"] != "abandon":
            return await self._commit(call, transaction)
        return False

    async def _abort(self, call: Call, transaction: AsyncTransaction) -> None:
        try:
            with self._timed(call, "abort transaction"):
                await transaction.abort()
        except FlotillaError as error:
            self._history.failed(call, error)
            # What was staged stays until somebody decides.
            call.outcome = UNKNOWN
        else:
            self._history.done(call, state=ABORTED)

    async def _commit(self, call: Call, transaction: AsyncTransaction) -> bool:
        """False: it is not committed, as far as is known."""
        job, version = call.arguments.get("application_id", ""), call.arguments.get("version", 0)
        for _ in range(_REPEATS + 1):
            try:
                with self._timed(call, "commit transaction"):
                    await transaction.commit(application_id=job, version=version)
            except OutcomeUnknownError as error:
                self._simulation.note("commit of unknown outcome")
                self._history.failed(call, error)
            except FlotillaError as error:
                self._history.failed(call, error)
                return False
            else:
                receipts = [(receipt.topic, receipt.partition, receipt.offset) for receipt in transaction.receipts]
                # Without receipts the version was committed before, and nothing of this one is seen.
                self._history.done(call, state=COMMITTED if receipts else ABORTED, receipts=receipts)
                if job:
                    self._versions[job] = max(self._versions[job], version + 1)
                return True
        return False

    # Those who take, make, and acknowledge.

    async def _work(self, life: str) -> None:
        chance = self._simulation.stream(life)
        number = 0
        async with AsyncClient(self._simulation.cluster.servers, timeout_ms=TIMEOUT_MS, name=life) as client:
            consumer = client.queue(INPUT, GROUP, visibility_ms=_VISIBILITY_MS, ordered=self._order)
            while not self._is_drained and (self._is_calm or chance.random() >= _LEAVES):
                try:
                    messages = await consumer.poll(4, wait_ms=1_000)
                except FlotillaError:
                    continue
                for message in messages:
                    number += 1
                    transaction = client.transaction(f"{life}-{number}", transaction_timeout_ms=_WORKER_TIMEOUT_MS)
                    await self._take(life, transaction, message, chance)
            try:
                await consumer.close()
            except FlotillaError:
                # What it had goes to others when its leases end.
                return

    async def _take(self, life: str, transaction: AsyncTransaction, message: AsyncQueueMessage, chance: Random) -> None:
        payload = message.payload.decode()
        call = self._begin(life, transaction, chance.choice(_OF_WORKERS), input=payload)
        call.arguments["partitions"].append((INPUT, message.partition))
        places = [(topic, partition) for topic, count in OUTPUTS.items() for partition in range(count)]
        if payload.startswith(INPUT):
            # From a producer: what is made of it may be an input too, of the same partition.
            places.append((INPUT, message.partition))
        try:
            with self._timed(call, "stage"):
                await transaction.ack(message)
        except FlotillaError as error:
            self._history.failed(call, error)
            return
        is_filled = await self._fill(call, transaction, chance, places, chance.choice((1, 1, 2)), message.key)
        await asyncio.sleep(chance.random() * (_HOLD_S if chance.random() < _HOLDS else 0.05))
        if is_filled and await self._end_as_meant(call, transaction):
            return
        with suppress(FlotillaError):
            # Where the acknowledgement was not staged, the message is still ours.
            await message.release()

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
        call = self._history.begin("txn-resolver", "resolve-transaction", 2 * TIMEOUT_MS, id=name)
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
