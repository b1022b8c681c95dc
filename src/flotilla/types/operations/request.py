"""The base of every operation: a request class states, once, all that other layers derive from it.

    @dataclass(slots=True)
    class DrainNode(Request[Done], to=CONTROLLER, effect=REPEATABLE):
        node: NodeId

`Request[Done]` is the reply, `to` the node that answers, `effect` says when the client may repeat it:

    READ        always, and its outcome is never unknown: it changes nothing, or nothing that its answer would not show
    REPEATABLE  always: done twice is done once
    ONCE        only while it is certain that it was not done

A class whose route or effect depends on its fields defines the property instead. A class that leaves one out cannot be
defined: the error comes when its module is imported.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from flotilla.types.ids import NO_NODE, NodeId

Effect: TypeAlias = Literal["read", "repeatable", "once"]
READ: Final = "read"
REPEATABLE: Final = "repeatable"
ONCE: Final = "once"


class Route(NamedTuple):
    """Where a request must go. Without a topic it is one of the constants below."""

    topic: str = ""
    partition: int = 0
    #: NO_NODE: the leader of the partition; else this node, which has a replica of it.
    replica: NodeId = NO_NODE


#: Any node can answer.
ANY: Final = Route()
#: The leader of the metadata group.
CONTROLLER: Final = Route("", -1)
#: In a class statement: the leader of the partition that the request names.
PARTITION_LEADER: Final = Route("", -2)
#: The other end of this connection, about another request on it.
CONNECTION: Final = Route("", -3)


@dataclass(slots=True)
class Reply:
    """The base of all replies."""


@dataclass(slots=True)
class Done(Reply):
    """The operation has happened; there is nothing else to say."""


if TYPE_CHECKING:
    # A bare `Request` has any reply. Python itself knows defaults of type variables from 3.13 on.
    R_co = TypeVar("R_co", bound=Reply, covariant=True, default=Reply)
else:
    R_co = TypeVar("R_co", bound=Reply, covariant=True)


class Request(Generic[R_co]):
    """The base of all requests. A request that fails is answered with a FlotillaError in place of its reply."""

    __slots__ = ()

    #: The operation's name in metrics, in the client contract and of the broker's method: CreateTopic is create_topic.
    operation: ClassVar[str]
    reply: ClassVar[type[Reply]]
    #: Its topic may be too new for the broker that is asked: the client retries NOT_FOUND a few times.
    retries_not_found: ClassVar[bool]
    #: It is about its connection: the endpoint answers it, and no broker has a method for it.
    is_for_endpoint: ClassVar[bool]

    def __init_subclass__(
        cls, *, to: Route | None = None, effect: Effect | None = None, retries_not_found: bool = False, **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        facts = vars(cls)
        if "operation" in facts:
            # `dataclass(slots=True)` makes the class a second time, from what the first one holds.
            return
        cls.operation = re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()
        replies = get_args(facts.get("__orig_bases__", (None,))[0])
        if not replies or (to is None and "route" not in facts) or (effect is None and "effect" not in facts):
            raise TypeError(f"{cls.__name__} does not state its reply, its route and its effect")
        cls.reply = replies[0]
        cls.retries_not_found = retries_not_found
        cls.is_for_endpoint = to is CONNECTION
        # Class attributes in place of the properties: a look-up without a call, for every request.
        if effect is not None:
            setattr(cls, "effect", effect)  # noqa: B010
        if to is PARTITION_LEADER:
            if "partition" not in {**facts, **facts.get("__annotations__", {})}:
                raise TypeError(f"{cls.__name__} goes to the leader of a partition but names none")
        elif to is not None:
            setattr(cls, "route", to)  # noqa: B010

    @property
    def route(self) -> Route:
        """Where the request goes; here, of one that names its partition."""
        return Route(self.topic, self.partition)  # type: ignore[attr-defined]

    @property
    def effect(self) -> Effect:
        """When the request may be repeated."""
        raise NotImplementedError
