"""Simulated TCP: hosts with names, paths between them, listening sockets and connections.

A connection keeps the order of its bytes and loses none while it lives, as TCP does; different connections overtake
each other. Bytes arrive in pieces of any size. A receiver that does not read holds up its sender, once a window is
full. A path that is cut holds up everything on it, also the news that a process died, until it is mended: the ends
stay half open and must notice that themselves. A host without power drops what comes; once it is up again it resets
connections that it does not know.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import Final, TypeAlias

from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.whole.process import Host, Process

#: Bytes that are on their way or unread at the receiver.
WINDOW_BYTES: Final = 256 * 1024
#: A dial without any answer ends after this long, as on Linux.
DIAL_US: Final = 127 * SECOND
#: When the system dials again after its first packet was lost.
_REDIAL_US: Final = (1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND, 32 * SECOND)
#: When bytes that were held up by a cut path arrive, once it is mended.
_RESEND_US: Final = 200 * MS
_FIRST_PORT: Final = 40_000

_END: Final = "end"
_RESET: Final = "reset"
Segment: TypeAlias = bytes | memoryview | str
Dialled: TypeAlias = Callable[["SimSocket | OSError"], None]


class Path:
    """One direction between two hosts."""

    __slots__ = ("_usual", "is_cut", "latency_us", "spread_us")

    def __init__(self, latency_us: int, spread_us: int) -> None:
        self.latency_us = latency_us
        self.spread_us = spread_us
        self.is_cut = False
        self._usual = (latency_us, spread_us)

    def slow(self, latency_us: int) -> None:
        self.latency_us = self.spread_us = latency_us

    def hurry(self) -> None:
        self.latency_us, self.spread_us = self._usual


class Internet:
    def __init__(self, world: World, latency_us: int = 150, spread_us: int = 300) -> None:
        self.world = world
        self.chance: Random = world.stream("internet")
        self._latency = (latency_us, spread_us)
        self._hosts: dict[str, Host] = {}
        #: Addresses by name.
        self._names: dict[str, str] = {}
        self._paths: dict[tuple[Host, Host], Path] = {}
        #: Hosts that are cut off from all others for ever.
        self._unplugged: set[Host] = set()
        #: Receiving sockets whose bytes are held up.
        self._held: dict[SimSocket, None] = {}
        #: The share of reads that get only a part of what is there.
        self.choppiness = 0.05
        #: Bytes of a connection that are on their way or unread: what is more stays at its sender.
        self.window_bytes = WINDOW_BYTES
        #: The share of dials that are answered and then reset.
        self.failing_dials = 0.0
        #: Names are not found.
        self.is_nameless = False
        self.backlog = 1_024
        #: Pieces of which a part stayed at the sender.
        self.partial_writes = 0
        #: What happened, for the list of events that a swarm must reach: dials that met a full queue, by dialling host.
        self.full_queues: dict[Host, int] = {}
        self.failed_accepts = 0

    def add(self, host: Host) -> None:
        self._hosts[host.address] = host
        self._names[host.name] = host.address

    @property
    def hosts(self) -> list[Host]:
        return list(self._hosts.values())

    def move(self, host: Host, address: str) -> None:
        """A host without power gets another address. Its name means the old one until `rename`."""
        assert not host.is_powered
        assert address not in self._hosts
        del self._hosts[host.address]
        host.address = address
        self._hosts[address] = host

    def rename(self, name: str, address: str) -> None:
        """The name means another address from now on."""
        self._names[name] = address

    def rename_all(self) -> None:
        """Every name means the address of its host."""
        for host in self._hosts.values():
            self._names[host.name] = host.address

    def resolve(self, name: str) -> str:
        """Raises OSError."""
        if name in self._hosts:
            return name
        if self.is_nameless or name not in self._names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._names[name]

    def path(self, source: Host, target: Host) -> Path:
        key = (source, target)
        found = self._paths.get(key)
        if found is None:
            latency_us, spread_us = (5, 5) if source is target else self._latency
            found = self._paths[key] = Path(latency_us, spread_us)
            found.is_cut = source is not target and (source in self._unplugged or target in self._unplugged)
        return found

    def cut(self, source: Host, target: Host) -> None:
        self.path(source, target).is_cut = True

    def isolate(self, host: Host) -> None:
        """Cuts all paths from and to a host."""
        for other in self._hosts.values():
            if other is not host:
                self.cut(host, other)
                self.cut(other, host)

    def mend(self, source: Host, target: Host) -> None:
        path = self.path(source, target)
        if path.is_cut:
            path.is_cut = False
            for held in [each for each in self._held if each.path_in is path]:
                del self._held[held]
                self.world.after(int(_RESEND_US * self.chance.random()), held.release)

    def mend_all(self) -> None:
        for (source, target), path in self._paths.items():
            if path.is_cut:
                self.mend(source, target)

    def unplug(self, host: Host) -> None:
        """Cuts the host off from all others, also those that come later."""
        self._unplugged.add(host)
        for other in self.hosts:
            if other is not host:
                self.cut(host, other)
                self.cut(other, host)

    def is_unplugged(self, host: Host) -> bool:
        return host in self._unplugged

    def hurry_all(self) -> None:
        """No path is slow any more."""
        for path in self._paths.values():
            path.hurry()

    def travel_us(self, path: Path) -> int:
        return path.latency_us + int(self.chance.random() * path.spread_us)

    def hold(self, receiver: "SimSocket") -> None:
        self._held[receiver] = None

    # Listening and dialling.

    def listen(self, process: Process, address: tuple[object, ...]) -> "ListeningSocket":
        port = address[1]
        assert isinstance(port, int)
        if not port:
            port = _FIRST_PORT
            while port in process.listening:
                port += 1
        if port in process.listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listening = ListeningSocket(process, port)
        process.listening[port] = listening
        return listening

    def dial(self, process: Process, address: str, port: int, done: Dialled) -> "SimSocket":
        """`done` gets the connected socket or an error, on no process's turn. Closing the socket gives up."""
        dialling = SimSocket(self, process, (process.host.address, 0))
        target = self._hosts.get(address)
        if target is None:
            self.world.after(self._latency[0], done, OSError(errno.ENETUNREACH, "Network is unreachable"))
        else:
            dialling.dialled = address
            self._knock(dialling, target, port, done, 0)
            self.world.after(DIAL_US, self._give_up, dialling, done)
        return dialling

    def _give_up(self, dialling: "SimSocket", done: Dialled) -> None:
        if dialling.is_open and not dialling.is_connected:
            dialling.is_open = False
            done(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _knock(self, dialling: "SimSocket", target: Host, port: int, done: Dialled, attempt: int) -> None:
        source = dialling.process.host
        there, back = self.path(source, target), self.path(target, source)
        if not dialling.is_open:
            return
        if there.is_cut or back.is_cut or not target.is_powered or target.address != dialling.dialled:
            self._knock_again(dialling, target, port, done, attempt)
        else:
            self.world.after(self.travel_us(there), self._arrive, dialling, target, port, done, attempt)

    def _knock_again(self, dialling: "SimSocket", target: Host, port: int, done: Dialled, attempt: int) -> None:
        if attempt < len(_REDIAL_US):
            self.world.after(_REDIAL_US[attempt], self._knock, dialling, target, port, done, attempt + 1)

    def _arrive(self, dialling: "SimSocket", target: Host, port: int, done: Dialled, attempt: int) -> None:
        process = target.process
        listening = None if process is None else process.listening.get(port)
        back_us = self.travel_us(self.path(target, dialling.process.host))
        if not dialling.is_open or not target.is_powered or target.address != dialling.dialled:
            return
        if process is None or listening is None:
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            self.world.after(back_us, self._answer, dialling, None, done, refusal)
        elif len(listening.queue) >= self.backlog:
            dialler = dialling.process.host
            self.full_queues[dialler] = self.full_queues.get(dialler, 0) + 1
            self._knock_again(dialling, target, port, done, attempt)
        else:
            accepted = SimSocket(self, process, (target.address, port), (dialling.process.host.address, _FIRST_PORT))
            dialling.local, dialling.remote = (dialling.process.host.address, _FIRST_PORT), (target.address, port)
            accepted.other, dialling.other = dialling, accepted
            accepted.is_connected = True
            listening.enter(accepted)
            self.world.after(back_us, self._answer, dialling, accepted, done, None)

    def _answer(
        self, dialling: "SimSocket", accepted: "SimSocket | None", done: Dialled, refusal: OSError | None
    ) -> None:
        if not dialling.is_open:
            if accepted is not None:
                accepted.fall(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            if dialling.error is not None:
                done(dialling.error)
            return
        if refusal is not None or accepted is None:
            dialling.is_open = False
            done(refusal or OSError("refused"))
            return
        dialling.is_connected = True
        if self.failing_dials and self.chance.random() < self.failing_dials:
            accepted.close()
            accepted.fall(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        done(dialling)


class ListeningSocket:
    """What the product uses of a listening socket."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        self.queue: deque[SimSocket] = deque()
        #: Called when a connection waits.
        self.on_ready: Callable[[], None] | None = None

    def enter(self, accepted: "SimSocket") -> None:
        self.queue.append(accepted)
        if self.on_ready is not None:
            self.on_ready()

    def accept(self) -> "tuple[SimSocket, tuple[str, int]]":
        if not self.queue:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        if len(self.process.sockets) >= self.process.descriptors_max:
            self.queue[0].internet.failed_accepts += 1
            raise OSError(errno.EMFILE, "Too many open files")
        accepted = self.queue.popleft()
        return accepted, accepted.remote

    def getsockname(self) -> tuple[str, int]:
        return (self.process.host.address, self.port)

    def fileno(self) -> int:
        return self.port if self.process.listening.get(self.port) is self else -1

    def close(self) -> None:
        if self.process.listening.get(self.port) is self:
            del self.process.listening[self.port]
        self.on_ready = None
        while self.queue:
            self.queue.popleft().orphan(is_heard=True)


class SimSocket:
    """One end of a connection."""

    def __init__(
        self, internet: Internet, process: Process, local: tuple[str, int], remote: tuple[str, int] = ("", 0)
    ) -> None:
        self.process = process
        self.world = process.world
        self.internet = internet
        self.local = local
        self.remote = remote
        #: The address that its owner dials.
        self.dialled = ""
        self.other: SimSocket | None = None
        #: Its owner has it: the dial was answered.
        self.is_connected = False
        self.is_open = True
        #: Why it ended, if the other side or the network ended it.
        self.error: OSError | None = None
        #: Bytes that wait for room in the window.
        self.unsent: deque[bytes | memoryview] = deque()
        self.unsent_bytes = 0
        #: Bytes that the other side has not read.
        self.unread_bytes = 0
        #: The owner sends no more, and the other side is told so.
        self._is_finished = False
        self._is_end_sent = False
        self._arrives_us = 0
        self.inbox: deque[bytes | memoryview] = deque()
        self.inbox_bytes = 0
        #: Everything from the other side has come.
        self.is_ended = False
        self._held: deque[Segment] = deque()
        #: Called when there is something to read, when unsent bytes have left, and at the end.
        self.on_readable: Callable[[], None] | None = None
        self.on_sent: Callable[[], None] | None = None
        process.sockets[self] = None

    @cached_property
    def path_in(self) -> Path:
        """Asked for once it has another side."""
        assert self.other is not None
        return self.internet.path(self.other.process.host, self.process.host)

    # What the owner does.

    def push(self, data: bytes) -> None:
        if not self.is_open or self._is_finished:
            return
        if data:
            self.unsent.append(data)
            self.unsent_bytes += len(data)
        self._pump()

    def take(self, room: int) -> list[bytes | memoryview]:
        """Up to that many bytes that have come."""
        if self.inbox_bytes > 1 and self.internet.chance.random() < self.internet.choppiness:
            room = min(room, 1 + int(self.internet.chance.random() * (self.inbox_bytes - 1)))
        taken: list[bytes | memoryview] = []
        while room and self.inbox:
            piece = self.inbox.popleft()
            if len(piece) > room:
                self.inbox.appendleft(memoryview(piece)[room:])
                piece = memoryview(piece)[:room]
            taken.append(piece)
            room -= len(piece)
            self.inbox_bytes -= len(piece)
            if self.other is not None:
                self.other.unread_bytes -= len(piece)
        if taken and self.other is not None and self.other.unsent:
            # The news of room in the window takes its time, too.
            back = self.internet.path(self.process.host, self.other.process.host)
            self.world.after(self.internet.travel_us(back), self.other._pump)
        return taken

    def finish(self) -> None:
        """The owner sends no more; what it has written still leaves."""
        if self.is_open and not self._is_finished:
            self._is_finished = True
            self._pump()

    def close(self) -> None:
        """Everything written still leaves; unread bytes make it a reset, as on a real system."""
        if not self.is_open:
            return
        if self.inbox_bytes:
            self.reset()
            return
        self.finish()
        self._shut()

    def reset(self) -> None:
        """Ends it at once for both sides."""
        if self.is_open:
            self.unsent.clear()
            self.unsent_bytes = 0
            self._shut()
            self._send(_RESET)

    def break_up(self) -> None:
        """Ends it for both sides, by the doing of neither."""
        if self.other is not None:
            other = self.other
            self.fall(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            other.fall(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def orphan(self, *, is_heard: bool) -> None:
        """The owner is dead."""
        if is_heard:
            self.reset()
        else:
            self._shut()

    def _shut(self) -> None:
        self.is_open = False
        self.on_readable = self.on_sent = None
        self.inbox.clear()
        self.inbox_bytes = 0
        self.process.sockets.pop(self, None)

    # For code that uses a socket itself.

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def send(self, data: bytes) -> int:
        self.push(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        if not self.inbox_bytes and not self.is_ended:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return b"".join(self.take(size))

    def shutdown(self, how: int) -> None:
        self.finish()

    def __enter__(self) -> "SimSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the network does.

    def _pump(self) -> None:
        window_bytes = self.internet.window_bytes
        while self.unsent and self.unread_bytes < window_bytes:
            piece = self.unsent.popleft()
            room = window_bytes - self.unread_bytes
            if len(piece) > room:
                self.internet.partial_writes += 1
                self.unsent.appendleft(memoryview(piece)[room:])
                piece = memoryview(piece)[:room]
            self.unsent_bytes -= len(piece)
            self.unread_bytes += len(piece)
            self._send(piece)
        if not self.unsent and self._is_finished and not self._is_end_sent:
            self._is_end_sent = True
            self._send(_END)
        if self.on_sent is not None:
            self.on_sent()

    def _send(self, segment: Segment) -> None:
        other = self.other
        if other is None:
            return
        path = other.path_in
        self._arrives_us = max(self._arrives_us, self.world.now_us + self.internet.travel_us(path))
        self.world.at(self._arrives_us, other._arrive, segment)

    def _arrive(self, segment: Segment) -> None:
        if self._held or self.path_in.is_cut:
            self._held.append(segment)
            self.internet.hold(self)
        else:
            self._deliver(segment)

    def release(self) -> None:
        """The path is mended."""
        if self.path_in.is_cut:
            self.internet.hold(self)
            return
        held, self._held = self._held, deque()
        for segment in held:
            self._deliver(segment)

    def _deliver(self, segment: Segment) -> None:
        if not self.is_open:
            is_there = self.process.host.is_powered and self.process.host.address == self.local[0]
            if is_there and segment is not _RESET and segment is not _END:
                # Nobody here knows the connection.
                self._send(_RESET)
            return
        if isinstance(segment, str):
            if segment is _RESET:
                self.fall(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
                return
            self.is_ended = True
        else:
            self.world.mix(len(segment))
            self.inbox.append(segment)
            self.inbox_bytes += len(segment)
        if self.on_readable is not None:
            self.on_readable()

    def fall(self, error: OSError) -> None:
        """The connection is gone for this side."""
        if not self.is_open:
            return
        self.error = error
        on_readable = self.on_readable
        self.unsent.clear()
        self.unsent_bytes = 0
        self._shut()
        if on_readable is not None:
            on_readable()
