"""The base of every operation: a request class states, once, all that other layers derive from it.

    @slotted
    class DrainNode(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=OPERATE):
        node: NodeId

`Request[Done]` is the reply, `to` the node that answers, `effect` says when the client may repeat it:

    READ        always, and its outcome is never unknown: it changes nothing, or nothing that its answer would not show
    REPEATABLE  always: done twice is done once
    ONCE        only while it is certain that it was not done

`needs` is the right to it (`types/access.py`), on the topic and the group that its fields of these names hold. A class
that is about others defines `resources`. Where a caller may ask for more than it may see, the class says what is left:
the request is `narrowed` before it is carried out, and only what is `visible` of the reply leaves.

A class whose route, effect or right depends on its fields defines the property instead. A class that leaves one out
cannot be defined: the error comes when its module is imported.
"""

import re
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
)

from flotilla.types.access import ANYBODY, FOUND, NODES, OPERATE, Resource, Right
from flotilla.types.ids import NO_NODE, NodeId
from flotilla.types.slotted import slotted

#: Whether the caller has a right on a topic, or on a group of it.
May: TypeAlias = Callable[[Right, Resource], bool]

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


@slotted
class Reply:
    """The base of all replies."""


@slotted
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
    #: The fields that name its topic and group; None: `resources` says what it is about.
    resource_fields: ClassVar[tuple[str, ...] | None]
    #: Its right depends on nothing but its kind and these fields.
    is_plain: ClassVar[bool]
    #: Its answer shows, and it asks for, only what the caller may see.
    is_narrowed: ClassVar[bool]

    def __init_subclass__(
        cls,
        *,
        to: Route | None = None,
        effect: Effect | None = None,
        needs: Right | None = None,
        retries_not_found: bool = False,
        **rest: Any,
    ) -> None:
        super().__init_subclass__(**rest)
        facts = vars(cls)
        if "operation" in facts:
            # `slotted` makes the class a second time, from what the first one holds.
            return
        cls.operation = re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()
        replies = get_args(facts.get("__orig_bases__", (None,))[0])
        if not replies or (to is None and "route" not in facts) or (effect is None and "effect" not in facts):
            raise TypeError(f"{cls.__name__} does not state its reply, its route and its effect")
        if needs is None and "needs" not in facts:
            raise TypeError(f"{cls.__name__} does not state which right it needs")
        cls._state_resources(needs, facts)
        cls.reply = replies[0]
        cls.retries_not_found = retries_not_found
        cls.is_for_endpoint = to is CONNECTION
        # Class attributes in place of the properties: a look-up without a call, for every request.
        if effect is not None:
            setattr(cls, "effect", effect)  # noqa: B010
        if to is PARTITION_LEADER:
            if "partition" not in {**facts, **cls.__annotations__}:
                raise TypeError(f"{cls.__name__} goes to the leader of a partition but names none")
        elif to is not None:
            setattr(cls, "route", to)  # noqa: B010

    @classmethod
    def _state_resources(cls, needs: Right | None, facts: Any) -> None:
        # From Python 3.14 on the namespace of a class does not hold them.
        named = cls.__annotations__
        has_own = "resources" in facts
        cls.resource_fields = None if has_own else tuple(name for name in ("topic", "group") if name in named)
        cls.is_plain = needs is not None and not has_own
        cls.is_narrowed = "visible" in facts or "narrowed" in facts
        if needs is not None:
            setattr(cls, "needs", needs)  # noqa: B010
        if not has_own and "topic" not in named and needs not in (OPERATE, FOUND, NODES, ANYBODY):
            raise TypeError(f"{cls.__name__} needs a right but does not say on what")

    @property
    def needs(self) -> Right:
        """The right to it."""
        raise NotImplementedError

    @property
    def resources(self) -> Sequence[Resource]:
        """What the right is needed on: each of these."""
        return (Resource(getattr(self, "topic", ""), getattr(self, "group", "")),)

    def narrowed(self, may: May) -> Self:
        """The request without what its caller may not ask for; the caller has the right to what is left."""
        return self

    def visible(self, reply: Any, may: May) -> Any:
        """The reply without what the caller may not describe."""
        return reply

    @property
    def route(self) -> Route:
        """Where the request goes; here, of one that names its partition."""
        return Route(self.topic, self.partition)  # type: ignore[attr-defined]

    @property
    def effect(self) -> Effect:
        """When the request may be repeated."""
        raise NotImplementedError
