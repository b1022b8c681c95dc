"""Which connection is cut when there is no room for another one."""

from dataclasses import dataclass, field

from flotilla.frontends.room_making import RoomMaking


@dataclass(eq=False)
class Connection:
    host: str
    is_stranger: bool = True
    is_silent: bool = False


@dataclass
class Endpoint:
    connections: list[Connection] = field(default_factory=list)
    looks: int = 0
    now_ms: int = 0
    room: RoomMaking[Connection] = field(init=False)

    def __post_init__(self) -> None:
        self.room = RoomMaking(
            self._look,
            is_stranger=lambda each: each.is_stranger,
            is_silent=lambda each: each.is_silent,
            host=lambda each: each.host,
            cut=self._cut,
            clock_ms=lambda: self.now_ms,
        )

    def _look(self) -> list[Connection]:
        self.looks += 1
        return list(self.connections)

    def _cut(self, connection: Connection) -> None:
        self.connections.remove(connection)

    def add(self, host: str, **said: bool) -> Connection:
        self.connections.append(Connection(host, **said))
        return self.connections[-1]


def test_the_oldest_stranger_of_the_busiest_host_is_cut_first() -> None:
    endpoint = Endpoint()
    alone = endpoint.add("quiet")
    crowd = [endpoint.add("busy") for _ in range(3)]
    assert endpoint.room.make()
    assert endpoint.connections == [alone, *crowd[1:]]
    assert endpoint.room.make()
    assert endpoint.room.make()
    assert endpoint.connections == [alone]
    assert endpoint.looks == 1
    assert endpoint.room.cut_count == 3


def test_the_silent_are_cut_when_there_is_no_stranger_and_others_never() -> None:
    endpoint = Endpoint()
    silent = endpoint.add("a", is_stranger=False, is_silent=True)
    known = endpoint.add("a", is_stranger=False)
    stranger = endpoint.add("b")
    assert endpoint.room.make()
    assert endpoint.connections == [silent, known]
    assert stranger not in endpoint.connections
    assert endpoint.room.make()
    assert endpoint.connections == [known]
    assert not endpoint.room.make()


def test_a_stranger_that_has_asked_since_it_was_found_keeps_its_place() -> None:
    endpoint = Endpoint()
    first, second, third = [endpoint.add("a") for _ in range(3)]
    assert endpoint.room.make()
    second.is_stranger = False
    assert endpoint.room.make()
    assert endpoint.connections == [second]
    assert first is not third


def test_looking_at_many_connections_rests_afterwards() -> None:
    endpoint = Endpoint()
    busy = [endpoint.add("a", is_stranger=False) for _ in range(4_000)]
    assert not endpoint.room.make()
    endpoint.add("a")
    endpoint.now_ms += 7
    assert not endpoint.room.make()
    endpoint.now_ms += 1
    assert endpoint.room.make()
    assert endpoint.connections == busy
    assert endpoint.looks == 2
