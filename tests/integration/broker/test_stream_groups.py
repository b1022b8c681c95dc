"""Stream groups on real brokers with members as real processes: one dies by kill -9, one comes, nothing is lost."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import ROOT, BrokerCluster, run, wait_for, wait_until

pytestmark = pytest.mark.slow

PARTITIONS = 6
GROUP = "billing"
#: Longer than a busy machine holds a process back.
SESSION_MS = 6_000


class Diary:
    """A member in a process of its own, and what it wrote."""

    def __init__(self, cluster: BrokerCluster, topic: str, path: Path) -> None:
        self._path = path
        with path.open("wb") as written:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.integration.broker.stream_reader",
                    ",".join(cluster.addresses),
                    topic,
                    GROUP,
                    str(SESSION_MS),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                stdin=subprocess.PIPE,
                stdout=written,
            )

    def events(self) -> list[dict[str, object]]:
        """Whole lines only: the last one may be half written when it was killed."""
        lines = self._path.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    @property
    def assignment(self) -> list[int]:
        owned: dict[int, None] = {}
        for event in self.events():
            owned.update(dict.fromkeys(event.get("assigned", [])))  # type: ignore[arg-type, call-overload]
            for partition in event.get("revoked", []):  # type: ignore[attr-defined]
                owned.pop(partition, None)
        return sorted(owned)

    def read(self) -> list[tuple[int, int]]:
        return [tuple(event["read"]) for event in self.events() if "read" in event]  # type: ignore[arg-type, misc]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self) -> None:
        """In order."""
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def diaries() -> Iterator[list[Diary]]:
    opened: list[Diary] = []
    yield opened
    for diary in opened:
        diary.end()


async def shared(diaries: list[Diary], what: str) -> None:
    """All partitions are owned, each by one of these, evenly."""

    def is_even() -> bool:
        owned = [diary.assignment for diary in diaries]
        counts = [len(each) for each in owned]
        return (
            sorted(partition for each in owned for partition in each) == list(range(PARTITIONS))
            and max(counts) - min(counts) <= 1
        )

    await wait_until(is_even, what)


async def reading_goes_on(client: AsyncClient, topic: str, diaries: list[Diary]) -> None:
    """Something that was produced after this was called is handled in every partition."""
    before = await ends(client, topic)

    def is_past() -> bool:
        seen = {place for diary in diaries for place in diary.read()}
        return all((number, end) in seen for number, end in before.items())

    await wait_until(is_past, "every partition to be read")


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def produce(client: AsyncClient, topic: str, stop: asyncio.Event) -> int:
    """Produces into every partition until it is stopped; returns how many records."""
    produced = 0
    for number in count():
        for partition in range(PARTITIONS):
            await client.produce(topic, b"%d" % number, partition=partition)
            produced += 1
        if await is_set_within(stop, 0.01):
            break
    return produced


async def watch(client: AsyncClient, topic: str, stop: asyncio.Event) -> None:
    """Committed offsets never go back."""
    seen = dict.fromkeys(range(PARTITIONS), -1)
    while not await is_set_within(stop, 0.05):
        for partition in seen:
            found = await client.committed_offset(topic, GROUP, partition)
            assert (found or 0) >= seen[partition]
            seen[partition] = found or 0


async def ends(client: AsyncClient, topic: str) -> dict[int, int]:
    return {number: await client.find_offset(topic, number, "latest") for number in range(PARTITIONS)}


async def everything_is_handled(client: AsyncClient, topic: str, diaries: list[Diary], produced: int) -> None:
    everything = {(number, offset) for number, end in (await ends(client, topic)).items() for offset in range(end)}
    assert len(everything) == produced
    await wait_until(
        lambda: everything - {place for diary in diaries for place in diary.read()},
        "every record to be handled",
        is_enough=lambda missing: not missing,
    )


def test_members_die_and_come_and_nothing_is_lost(cluster: BrokerCluster, diaries: list[Diary], tmp_path: Path) -> None:
    topic = "shared"

    def join(name: str) -> Diary:
        diaries.append(Diary(cluster, topic, tmp_path / name))
        return diaries[-1]

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(topic, partitions=PARTITIONS)
        await cluster.wait_led(topic, PARTITIONS)
        stop = asyncio.Event()
        producing = asyncio.create_task(produce(client, topic, stop))
        watching = asyncio.create_task(watch(client, topic, stop))
        one, two, three = join("one"), join("two"), join("three")
        await shared([one, two, three], "three members to share")
        await reading_goes_on(client, topic, [one, two, three])

        kept = {diary: (len(diary.events()), diary.assignment) for diary in (one, two)}
        three.process.send_signal(signal.SIGKILL)
        await shared([one, two], "two members to share what the third had")
        await reading_goes_on(client, topic, diaries)
        for diary, (before, partitions) in kept.items():
            check_uninterrupted(diary, before, partitions)

        begins = {diary: len(diary.events()) for diary in (one, two)}
        four = join("four")
        await shared([one, two, four], "the fourth to have its share")
        await reading_goes_on(client, topic, diaries)
        for diary, begin in begins.items():
            check_uninterrupted(diary, begin, diary.assignment)
        await check_described(client, topic)

        stop.set()
        produced = await producing
        await watching
        await everything_is_handled(client, topic, diaries, produced)
        for diary in (one, two, four):
            diary.stop()
            assert diary.process.wait() == 0
        committed = {number: await client.committed_offset(topic, GROUP, number) for number in range(PARTITIONS)}
        assert committed == await ends(client, topic)
        assert (await client.describe_group(topic, GROUP)).member_count == 0

    run(cluster, scenario, seconds=150)


async def check_described(client: AsyncClient, topic: str) -> None:
    info = await client.describe_group(topic, GROUP)
    assert info.kind == "stream"
    assert sorted(info.owners) == list(range(PARTITIONS))
    assert info.stream is not None
    assert len(info.stream.members) == 3
    assert "joined" in info.stream.cause


def check_uninterrupted(diary: Diary, begin: int, kept: list[int]) -> None:
    """What it kept was neither taken from it nor given to it again, and was read without a gap or a repetition."""
    events = diary.events()[begin:]
    for event in events:
        assert not set(event.get("assigned", [])) & set(kept)  # type: ignore[call-overload]
        assert not set(event.get("revoked", [])) & set(kept)  # type: ignore[call-overload]
    for partition in kept:
        offsets = [offset for number, offset in diary.read() if number == partition]
        assert offsets[offsets.index(min(offsets)) :] == list(range(min(offsets), max(offsets) + 1))


def test_a_coordinator_that_dies_moves_nothing(cluster: BrokerCluster, diaries: list[Diary], tmp_path: Path) -> None:
    topic = "coordinated"

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(topic, partitions=PARTITIONS)
        await cluster.wait_led(topic, PARTITIONS)
        for partition in range(PARTITIONS):
            await client.produce(topic, b"x", partition=partition)
        diaries.extend([Diary(cluster, topic, tmp_path / name) for name in ("one", "two")])
        await shared(diaries, "two members to share")
        owned = [diary.assignment for diary in diaries]
        before = [len(diary.events()) for diary in diaries]
        generation = (await client.describe_group(topic, GROUP)).stream
        assert generation is not None
        controller = cluster[(await client.admin.metadata()).controller]
        await controller.kill()

        async def described() -> int:
            info = await client.describe_group(topic, GROUP)
            assert info.stream is not None
            assert len(info.stream.members) == 2
            return min(member.heard_ms_ago for member in info.stream.members)

        await wait_for(described, "another coordinator", is_enough=lambda heard: heard >= 0)
        for partition in range(PARTITIONS):
            await client.produce(topic, b"y", partition=partition)
        places = {(number, offset) for number in range(PARTITIONS) for offset in (0, 1)}
        await wait_until(lambda: places <= {*diaries[0].read(), *diaries[1].read()}, "everything to be read")
        controller.start()
        await cluster.wait_ready(client)
        after = (await client.describe_group(topic, GROUP)).stream
        assert after is not None
        assert [diary.assignment for diary in diaries] == owned
        assert after.generation == generation.generation
        later = [event for diary, begin in zip(diaries, before, strict=True) for event in diary.events()[begin:]]
        assert not any("revoked" in event or "assigned" in event for event in later)

    run(cluster, scenario, seconds=120)
