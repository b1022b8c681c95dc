"""The help of a command without typer's type names: a flag shows no `<bool>`, and a number is NUMBER.

Typer has no option for this, so its parameters are changed as a command lists them.
"""

from typing import Any

_VALUES = {"bool": "", "str": "TEXT", "int": "NUMBER", "float": "NUMBER"}


def plain_help(command: Any) -> None:
    """Changes a typer command and the commands below it."""
    listed = command.get_params
    command.get_params = lambda ctx: plain_parameters(listed(ctx), ctx)
    for each in getattr(command, "commands", {}).values():
        plain_help(each)


def plain_parameters(parameters: list[Any], ctx: Any) -> list[Any]:
    for each in parameters:
        if each.param_type_name == "argument":
            name = each.display_name_raw if each.required else f"[{each.display_name_raw}]"
            each.get_usage_pieces = lambda ctx, name=name: [name]
            each.display_type_rich = lambda ctx: None
        elif each.metavar is None:
            kind = each.display_type(ctx).strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
            each.metavar = _VALUES.get(kind, kind)
    return parameters
