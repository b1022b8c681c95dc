"""The commands of a scenario. Each prints its effects, in the notation of `notation`.

nodes 1,2,3 [learners=4] [index=10] [setting=value]   founders of a group; settings are those of RaftOptions
join 4 [setting=value]                                a node that belongs to no group yet
campaign 1 | propose 1 text | change 1 +4 ~3 -2 [implicit|explicit] | leave 1      (+ voter, ~ learner, - gone)
read 1 | transfer 1 2 | compact 1 5 (up to 5) | link-lost 1 2 | link-back 1 2
tick 1 [count] | timeout 1 ticks | ready 1 | sync 1 | slow 1 | fast 1
deliver [1 2] | drop [1 2] | cut 1 2 | cut 1 | heal | settle [1 2]
crash 1 | restart 1 | damage 1 5
show [1 2] | log 1 | progress 1 | state 1
quietly <command>                                     the same, printing nothing
"""

from collections.abc import Callable
from dataclasses import replace

from flotilla.raft.membership import (
    ADD_LEARNER,
    ADD_VOTER,
    AUTO,
    EXPLICIT,
    IMPLICIT,
    REMOVE,
    Change,
    ConfigurationChange,
)
from flotilla.raft.messages import Configuration
from flotilla.raft.options import RaftOptions
from flotilla.raft.progress import STATE_NAMES, Progress
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import NodeId
from tests.scenarios.cluster import Cluster, Member
from tests.scenarios.notation import format_entry, format_message
from tests.scenarios.script import Command, parse

CHANGE_KINDS = {"+": ADD_VOTER, "~": ADD_LEARNER, "-": REMOVE}
TRANSITIONS = {"implicit": IMPLICIT, "explicit": EXPLICIT}
#: Short times keep scripts short; groups stay awake unless a scenario is about sleep.
BASE_OPTIONS = RaftOptions(election_ticks=5, heartbeat_ticks=1, quiesce_ticks=0)


def play(text: str) -> list[str | Command]:
    """Plays a scenario from its text; the commands come back with what they print now."""
    parts = parse(text)
    stage = Play()
    for part in parts:
        if isinstance(part, Command):
            try:
                part.recorded = stage.run(part.words)
            except Exception as error:
                error.add_note(f"line {part.line}: {part.text}")
                raise
    return parts


class Play:
    """One scenario's cluster."""

    def __init__(self) -> None:
        self.cluster = Cluster()

    def run(self, words: list[str]) -> list[str]:
        """What the command printed."""
        name, *arguments = words
        if name == "quietly":
            self.run(arguments)
            return []
        self.cluster.trace = []
        try:
            shown = COMMANDS[name](self, arguments) or []
        except FlotillaError as error:
            return [*self.cluster.trace, f"{error.code}: {error}"]
        self.cluster.observe()
        return [*self.cluster.trace, *shown]

    # Building.

    def nodes(self, words: list[str]) -> None:
        settings = dict(word.split("=", 1) for word in words[1:])
        learners = numbers(settings.pop("learners", ""))
        index = int(settings.pop("index", "0"))
        voters = numbers(words[0])
        for node_id in sorted((*voters, *learners)):
            configuration = Configuration(voters=voters, learners=learners)
            self.cluster.add(node_id, configuration, index=index, options=options(settings))

    def join(self, words: list[str]) -> None:
        settings = dict(word.split("=", 1) for word in words[1:])
        self.cluster.add(int(words[0]), Configuration(), options=options(settings))

    # Asking a node for something.

    def campaign(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.campaign())

    def propose(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.propose(" ".join(words[1:]).encode()))

    def change(self, words: list[str]) -> None:
        transition = TRANSITIONS.get(words[-1], AUTO)
        changes = tuple(Change(CHANGE_KINDS[w[0]], int(w[1:])) for w in words[1:] if w not in TRANSITIONS)
        self.cluster.call(int(words[0]), lambda node: node.propose_change(ConfigurationChange(changes, transition)))

    def leave(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.propose_change(ConfigurationChange()))

    def read(self, words: list[str]) -> list[str]:
        node_id = int(words[0])
        return [f"{node_id} asks for read {self.cluster.node(node_id).read()}"]

    def transfer(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.transfer(int(words[1])))

    def compact(self, words: list[str]) -> None:
        self.cluster.members[int(words[0])].compact(int(words[1]) + 1)

    def link_lost(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.peer_down(int(words[1])))

    def link_back(self, words: list[str]) -> None:
        self.cluster.call(int(words[0]), lambda node: node.peer_up(int(words[1])))

    # Time, disks and messages.

    def tick(self, words: list[str]) -> None:
        for _ in range(int(words[1]) if len(words) > 1 else 1):
            self.cluster.call(int(words[0]), lambda node: node.tick())

    def timeout(self, words: list[str]) -> None:
        self.cluster.node(int(words[0])).election_timeout = int(words[1])

    def ready(self, words: list[str]) -> list[str]:
        before = len(self.cluster.network)
        if not self.cluster.has_work(int(words[0])):
            return ["nothing to do"]
        self.cluster.process_ready(int(words[0]))
        return [f"sent {format_message(message)}" for message in self.cluster.network[before:]]

    def sync(self, words: list[str]) -> list[str]:
        before = len(self.cluster.network)
        if not self.cluster.members[int(words[0])].writes:
            return ["nothing to write"]
        self.cluster.finish_write(int(words[0]))
        return [f"sent {format_message(message)}" for message in self.cluster.network[before:]]

    def slow(self, words: list[str]) -> None:
        self.cluster.members[int(words[0])].is_slow = True

    def fast(self, words: list[str]) -> None:
        self.cluster.members[int(words[0])].is_slow = False

    def deliver(self, words: list[str]) -> None:
        self.cluster.deliver(lambda message: not words or str(message.to) in words)

    def drop(self, words: list[str]) -> None:
        self.cluster.deliver(lambda message: not words or str(message.to) in words, drop=True)

    def cut(self, words: list[str]) -> None:
        node_id = int(words[0])
        others = [int(words[1])] if len(words) > 1 else [peer for peer in self.cluster.members if peer != node_id]
        for peer in others:
            self.cluster.cuts |= {(node_id, peer), (peer, node_id)}

    def heal(self, words: list[str]) -> None:
        self.cluster.cuts.clear()

    def settle(self, words: list[str]) -> None:
        self.cluster.settle(map(int, words))

    def crash(self, words: list[str]) -> None:
        self.cluster.crash(int(words[0]))

    def restart(self, words: list[str]) -> None:
        self.cluster.restart(int(words[0]))

    def damage(self, words: list[str]) -> None:
        member = self.cluster.members[int(words[0])]
        member.store.damaged.add(int(words[1]))
        member.disk.damaged.add(int(words[1]))

    # Looking.

    def show(self, words: list[str]) -> list[str]:
        return [self.cluster.describe(node_id) for node_id in map(int, words or map(str, self.cluster.members))]

    def log(self, words: list[str]) -> list[str]:
        disk = self.cluster.members[int(words[0])].disk
        damaged = dict.fromkeys(disk.damaged, " (damaged)")
        return [format_entry(entry) + damaged.get(entry.index, "") for entry in disk.stored] or ["empty"]

    def state(self, words: list[str]) -> list[str]:
        return [body.decode() for body in self.cluster.members[int(words[0])].state] or ["empty"]

    def progress(self, words: list[str]) -> list[str]:
        member = self.cluster.members[int(words[0])]
        peers = [(peer, progress) for peer, progress in member.node.progress.items() if peer != member.id]
        return [format_progress(member, peer, progress) for peer, progress in peers] or ["has no peers"]


def numbers(text: str) -> tuple[NodeId, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def options(settings: dict[str, str]) -> RaftOptions:
    switches = {"on": True, "off": False}
    values = {name: switches[text] if text in switches else int(text) for name, text in settings.items()}
    return replace(BASE_OPTIONS, **values)  # type: ignore[arg-type]


def format_progress(member: Member, peer: NodeId, progress: Progress) -> str:
    text = f"{peer}: {STATE_NAMES[progress.state]} match {progress.match} next {progress.next}"
    if progress.snapshot is not None:
        text += f" snapshot {progress.snapshot.index} sent {progress.snapshot_offset} of {progress.snapshot.size_bytes}"
    if progress.inflight:
        text += f" in flight {len(progress.inflight)}"
    if progress.is_paused(member.options.inflight_bytes_max, member.options.inflight_count_max):
        text += " paused"
    return text


COMMANDS: dict[str, Callable[[Play, list[str]], list[str] | None]] = {
    "campaign": Play.campaign,
    "change": Play.change,
    "compact": Play.compact,
    "crash": Play.crash,
    "cut": Play.cut,
    "damage": Play.damage,
    "deliver": Play.deliver,
    "drop": Play.drop,
    "fast": Play.fast,
    "heal": Play.heal,
    "join": Play.join,
    "leave": Play.leave,
    "link-back": Play.link_back,
    "link-lost": Play.link_lost,
    "log": Play.log,
    "nodes": Play.nodes,
    "progress": Play.progress,
    "propose": Play.propose,
    "read": Play.read,
    "ready": Play.ready,
    "restart": Play.restart,
    "settle": Play.settle,
    "show": Play.show,
    "slow": Play.slow,
    "state": Play.state,
    "sync": Play.sync,
    "tick": Play.tick,
    "timeout": Play.timeout,
    "transfer": Play.transfer,
}
