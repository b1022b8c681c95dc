"""What a topic holds at the end, and whether that fits what its producers were told."""

from collections.abc import Sequence

from flotilla.client.async_client import AsyncClient
from flotilla.client.reader.options import ReadFrom
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.history import DONE, NOT_DONE, Call
from flotilla.types.errors import FlotillaError

#: Payloads by offset, by partition.
Contents = dict[int, dict[int, str]]


async def read_contents(client: AsyncClient, topic: str, partitions: int) -> Contents:
    """Everything up to the end that it finds. Tries until it succeeds."""
    contents: Contents = {}
    for partition in range(partitions):
        while partition not in contents:
            try:
                contents[partition] = await read_partition(client, topic, partition)
            except FlotillaError:
                continue
    return contents


async def read_partition(
    client: AsyncClient, topic: str, partition: int, *, read_from: ReadFrom = "leader"
) -> dict[int, str]:
    """Payloads by offset, up to the end that it finds. Raises FlotillaError."""
    found: dict[int, str] = {}
    end = await client.find_offset(topic, partition, "latest")
    async with client.reader(topic, partitions=[partition], offset="earliest", read_from=read_from) as reader:
        position = 0
        while position < end:
            messages = await reader.poll()
            if not messages:
                # A topic that was made anew under the name may be shorter.
                end = min(end, await client.find_offset(topic, partition, "latest"))
            for message in messages:
                if message.offset < position:
                    raise Violation("each offset is read once, in order", f"{topic}/{partition}: {message}")
                found[message.offset] = message.payload.decode()
                position = message.offset + 1
    return found


def judge_contents(topic: str, produces: Sequence[Call], contents: Contents) -> None:
    """Every acknowledged record is there once, at its offset, behind those that were acknowledged before its call."""
    read: dict[str, tuple[int, int]] = {}
    for partition, found in contents.items():
        for offset, payload in found.items():
            if payload in read:
                raise Violation("no record is doubled", f"{topic}: {payload} at {read[payload]}, {(partition, offset)}")
            read[payload] = (partition, offset)
    known = {call.arguments["payload"] for call in produces}
    for payload in read:
        if payload not in known:
            raise Violation("nothing is made up", f"{topic}: nobody produced {payload} at {read[payload]}")
    for call in produces:
        place = read.get(call.arguments["payload"])
        if call.outcome == DONE and place != (call.result["partition"], call.result["offset"]):
            raise Violation("every acknowledged record is read at its offset", f"{call} {place}")
        if call.outcome == NOT_DONE and place is not None:
            raise Violation("what was not done has not happened", f"{call} is at {place}")
    judge_order(topic, produces)


def judge_order(topic: str, produces: Sequence[Call]) -> None:
    """Offsets follow the order in which calls of a partition ended and began; a key stays in its partition."""
    done = [call for call in produces if call.outcome == DONE]
    homes: dict[str, int] = {}
    for call in done:
        key = call.arguments.get("key")
        if key and homes.setdefault(key, call.result["partition"]) != call.result["partition"]:
            raise Violation("a key stays in its partition", f"{topic}: {call}")
    for partition in sorted({call.result["partition"] for call in done}):
        here = [call for call in done if call.result["partition"] == partition]
        ended = sorted(here, key=lambda call: call.ended_us)
        at, highest, last = 0, -1, None
        for call in sorted(here, key=lambda call: call.began_us):
            while ended[at].ended_us < call.began_us:
                if ended[at].result["offset"] > highest:
                    highest, last = ended[at].result["offset"], ended[at]
                at += 1
            if call.result["offset"] <= highest:
                raise Violation("a later record has a higher offset", f"{topic}/{partition}: {call} after {last}")
