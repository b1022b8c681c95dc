"""The profiles of a user: clusters by name. A profile says what `--servers` and the variables of a client would.

They stand in one file of the user, `flotilla/profiles.json` in the folder for settings (XDG_CONFIG_HOME, else
~/.config). It holds names of files with secrets, never secrets. Variables of the environment count more than the chosen
profile, a profile that a command names more than variables, and options of a command more than all.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

from flotilla.cli.terminal.servers import SERVERS_VARIABLE
from flotilla.client.app.environment import PASSWORD_FILE_VARIABLE, TOKEN_FILE_VARIABLE, USER_VARIABLE
from flotilla.security.client_tls import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE
from flotilla.types.errors import InvalidArgumentError, NotFoundError

PROFILE_VARIABLE: Final = "FLOTILLA_PROFILE"
#: The variable that each field of a profile stands for.
FIELDS: Final = {
    "servers": SERVERS_VARIABLE,
    "user": USER_VARIABLE,
    "password_file": PASSWORD_FILE_VARIABLE,
    "token_file": TOKEN_FILE_VARIABLE,
    "tls_ca": CA_VARIABLE,
    "tls_certificate": CERTIFICATE_VARIABLE,
    "tls_key": KEY_VARIABLE,
}


def profiles_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "flotilla" / "profiles.json"


def read_profiles() -> dict[str, Any]:
    """`chosen`, a name or empty, and the fields of each of the `profiles`. Raises InvalidArgumentError."""
    path = profiles_file()
    try:
        found = json.loads(path.read_text("utf-8"))
        kept: dict[str, Any] = {"chosen": str(found["chosen"]), "profiles": dict(found["profiles"])}
        if not all(fields.keys() <= FIELDS.keys() for fields in kept["profiles"].values()):
            raise ValueError("a profile has a field that this version does not know")
    except FileNotFoundError:
        return {"chosen": "", "profiles": {}}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{path} is damaged: {error}") from None
    return kept


def write_profiles(kept: dict[str, Any]) -> None:
    path = profiles_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    beside.replace(path)


def apply_profile(name: str = "") -> None:
    """Sets the variables of the profile: the named one, else FLOTILLA_PROFILE's, else the chosen one.

    A variable that is set keeps its value, unless the profile was named. Raises NotFoundError.
    """
    kept = read_profiles()
    wanted = name or os.environ.get(PROFILE_VARIABLE, "") or kept["chosen"]
    if not wanted:
        return
    if wanted not in kept["profiles"]:
        raise NotFoundError(f"there is no profile {wanted!r}; `flotilla profile list` shows them")
    for field, value in kept["profiles"][wanted].items():
        if name or not os.environ.get(FIELDS[field]):
            os.environ[FIELDS[field]] = value
