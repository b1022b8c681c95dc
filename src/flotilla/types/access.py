"""Who makes a request."""

from typing import Final, Literal, NamedTuple, TypeAlias

PrincipalKind: TypeAlias = Literal["user", "node", "anonymous"]
USER: Final = "user"
NODE: Final = "node"


class Principal(NamedTuple):
    """Who asks: a user by name, a node by its number, or somebody who did not say."""

    kind: PrincipalKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


ANONYMOUS: Final = Principal("anonymous")
