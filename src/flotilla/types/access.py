"""Who may do what: principals, actions, grants, and the decision whether grants allow a request.

A grant lets one user do one thing to the topics, and to the groups of them, that its two patterns match: an exact name,
a prefix followed by `*`, or `*` for all. There are no denials and no order: what no grant allows is refused, and the
one grant that allows something can be named. A role is a name that grants are given to in place of a user; they count
for the users who have the role.

    produce     store messages in a topic
    consume     read a topic, and take, settle and commit messages of its groups
    describe    see that a topic or a group exists, and how it is doing
    manage      create, change and delete topics and groups, reset, cancel, trim, redrive
    operate     nodes, moves, transactions that hang, users and grants: the whole cluster

Whoever may produce to a topic, consume from it or manage it may describe it, and whoever may operate may describe
everything. A dead-letter topic belongs to whoever may manage its topic and group, beside those whom a grant names.

Pure: from values to values. The operations state what they need (`operations/request.py`), and brokers ask here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from flotilla.types.dead_letters import PREFIX, dead_letter_topic
from flotilla.types.errors import InvalidArgumentError

Action: TypeAlias = Literal["produce", "consume", "describe", "manage", "operate"]
PRODUCE: Final = "produce"
CONSUME: Final = "consume"
DESCRIBE: Final = "describe"
MANAGE: Final = "manage"
OPERATE: Final = "operate"
ACTIONS: Final[tuple[Action, ...]] = (PRODUCE, CONSUME, DESCRIBE, MANAGE, OPERATE)

#: What an operation may need, beside an action. Of a transaction: its topics may be produced to or consumed from.
TAKE_PART: Final = "produce or consume"
#: Of a schedule: its topic may be managed, and produced to.
SCHEDULE: Final = "manage and produce"
#: Everybody who has said who they are; the answer shows only what they may describe.
ANYBODY: Final = "anybody"
#: Only nodes of the cluster.
NODES: Final = "nodes"
#: Whoever may operate; and while the cluster has no users, whoever connects from the node's own machine.
FOUND: Final = "found"
Right: TypeAlias = Literal[
    "produce",
    "consume",
    "describe",
    "manage",
    "operate",
    "produce or consume",
    "manage and produce",
    "anybody",
    "nodes",
    "found",
]

#: The actions whose grants give each right.
_GIVEN_BY: Final[dict[str, tuple[str, ...]]] = {
    PRODUCE: (PRODUCE,),
    CONSUME: (CONSUME,),
    DESCRIBE: (DESCRIBE, PRODUCE, CONSUME, MANAGE, OPERATE),
    MANAGE: (MANAGE,),
    OPERATE: (OPERATE,),
    TAKE_PART: (PRODUCE, CONSUME),
    FOUND: (OPERATE,),
}

PrincipalKind: TypeAlias = Literal["user", "node", "local", "anonymous"]
USER: Final = "user"
NODE: Final = "node"
LOCAL: Final = "local"


class Principal(NamedTuple):
    """Who asks: a user by name, a node by its number, or somebody who did not say.

    *local* is somebody on the node's own machine, while the cluster has no users: the one who founds it.
    """

    kind: PrincipalKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


ANONYMOUS: Final = Principal("anonymous")
FOUNDER: Final = Principal(LOCAL)
#: Somebody who did not say, where that is a user with grants of its own.
ANYONE: Final = Principal(USER, "anonymous")
#: The first part of a role's name where a grant is given to it. No user has such a name.
ROLE_PREFIX: Final = "role:"
#: The first part of a node's name where it proves itself by the cluster's secret. No user has such a name.
NODE_PREFIX: Final = "node:"


class Verifier(NamedTuple):
    """What a cluster keeps of a password (SCRAM-SHA-256, RFC 5802): enough to check it, not to use it elsewhere."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class Resource(NamedTuple):
    """What a right is needed on. Empty: the request names no topic, or no group of it."""

    topic: str = ""
    group: str = ""


#: Of SHA-256.
KEY_BYTES: Final = 32
#: Rounds of hashing that a guess at a password costs; more than the maximum would stop clients.
ITERATIONS_MIN: Final = 4_096
ITERATIONS: Final = 50_000
ITERATIONS_MAX: Final = 1_000_000

#: As a name: only a grant for all names covers it.
ALL: Final = "*"
#: All topics and groups of the cluster.
EVERYTHING: Final = Resource(ALL, ALL)

USER_NAME_LENGTH_MAX: Final = 128
_USER_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{USER_NAME_LENGTH_MAX - 1}}}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9._-]{0,200}\*|[A-Za-z0-9._-]{1,200}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    #: Or a role: ROLE_PREFIX and its name.
    user: str
    action: str
    topic: str = ALL
    group: str = ALL

    def __str__(self) -> str:
        parts = [self.user, self.action]
        if self.action != OPERATE:
            parts.append(self.topic)
            if self.group != ALL:
                parts.append(f"group {self.group}")
        return " ".join(parts)


def check_user_name(name: str) -> None:
    """Raises InvalidArgumentError."""
    if _USER_NAME.fullmatch(name) is None:
        raise InvalidArgumentError(
            "the name of a user has 1 to 128 letters, digits, dots, _, - or @, and begins with a letter or a digit"
        )


def check_verifier(verifier: Verifier) -> None:
    """Raises InvalidArgumentError."""
    if (
        not 8 <= len(verifier.salt) <= 64
        or len(verifier.stored_key) != KEY_BYTES
        or len(verifier.server_key) != KEY_BYTES
    ):
        raise InvalidArgumentError("a verifier has a salt of 8 to 64 bytes and two keys of 32 bytes")
    if not ITERATIONS_MIN <= verifier.iterations <= ITERATIONS_MAX:
        raise InvalidArgumentError(f"a verifier has {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations")


def check_grant(grant: Grant) -> None:
    """Raises InvalidArgumentError for a grant that means nothing, or less than it seems to."""
    check_user_name(grant.user.removeprefix(ROLE_PREFIX))
    if grant.action not in ACTIONS:
        raise InvalidArgumentError(f"an action is one of {', '.join(ACTIONS)}, not {grant.action[:80]!r}")
    for noun, pattern in (("topic", grant.topic), ("group", grant.group)):
        if _PATTERN.fullmatch(pattern) is None:
            raise InvalidArgumentError(f"a {noun} is granted by its name, a prefix and *, or *, not {pattern[:80]!r}")
    if grant.action == OPERATE and (grant.topic, grant.group) != (ALL, ALL):
        raise InvalidArgumentError("whoever may operate the cluster may operate all of it: name no topic")
    if grant.action == PRODUCE and grant.group != ALL:
        raise InvalidArgumentError("messages are produced to a topic, whatever its groups: name no group")


def matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith(ALL) else name == pattern


def covers(grant: Grant, right: Right, resource: Resource) -> bool:
    """Whether this grant by itself gives the right."""
    if grant.action not in _GIVEN_BY[right] or not matches(grant.topic, resource.topic):
        return False
    if not resource.group:
        # A grant for some groups lets their members read the topic and see it, but not change all of it.
        return grant.group == ALL or right in (CONSUME, DESCRIBE, TAKE_PART)
    if grant.action == PRODUCE:
        # Producers have nothing to do with groups.
        return False
    return matches(grant.group, resource.group)


def deciding(grants: Iterable[Grant], right: Right, resource: Resource) -> Grant | None:
    """The grant that allows it; None: nothing does. The grants are those of one user."""
    letters = _letters_of(resource.topic)
    for grant in grants:
        if covers(grant, right, resource) or (letters is not None and covers(grant, MANAGE, letters)):
            return grant
    return None


def allows(grants: Iterable[Grant], principal: Principal, right: Right, resources: Iterable[Resource]) -> bool:
    """Whether a principal with these grants of its own has the right on each of the resources."""
    if principal.kind == NODE:
        return True
    if principal.kind == LOCAL:
        return right in (FOUND, ANYBODY)
    if principal.kind != USER or right == NODES:
        return False
    if right == ANYBODY:
        return True
    held = tuple(grants)
    rights: tuple[Right, ...] = (MANAGE, PRODUCE) if right == SCHEDULE else (right,)
    return all(deciding(held, each, resource) is not None for each in rights for resource in resources)


def _letters_of(name: str) -> Resource | None:
    """The topic and group whose dead letters go to the topic of this name; None: it does not say."""
    if not name.startswith(PREFIX):
        return None
    # Dots of the group are doubled: the first single one ends it.
    found = re.fullmatch(r"((?:[^.]|\.\.)+)\.([^.].*)", name[len(PREFIX) :])
    if found is None:
        return None
    letters = Resource(found[2], found[1].replace("..", "."))
    return letters if dead_letter_topic(letters.group, letters.topic) == name else None
