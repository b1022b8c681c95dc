"""The loader of settings: flags, then `FLOTILLA_*` variables, then a TOML file, then defaults.

It reads the sources; `flotilla.types.settings` parses the values. An unknown key is an error: a misspelt key
that is silently ignored costs its owner an evening. A value that a stronger source overrides is not parsed.
An empty variable counts as absent, because deployment tools tend to pass all of them.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.setting_table import VARIABLE_PREFIX, did_you_mean
from flotilla.types.settings import (
    SETTINGS,
    Given,
    LoadedSettings,
    Origin,
    OriginKind,
    resolve,
)

#: Names the file when no flag does.
CONFIG_VARIABLE = "FLOTILLA_CONFIG"
CONFIG_BYTES_MAX = 1024 * 1024

# Kubernetes sets variables like these with the addresses of a service named flotilla.
_SERVICE_LINK = re.compile(
    r"FLOTILLA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://.+")


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None = None) -> LoadedSettings:
    """The settings of this process and where each came from. A flag that is None was not given.

    Raises InvalidArgumentError, with one line that names what is wrong and where.
    """
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    given: dict[str, Given] = {}
    if file is not None:
        given.update(_from_file(file))
    given.update(_from_environment(environ))
    given.update(_from_flags(flags))
    return resolve(given)


def _from_file(file: Path) -> dict[str, Given]:
    place = str(file) if str(file).isprintable() else repr(str(file))
    content = _read_toml(file, place)
    _refuse_unknown(content, SETTINGS, f"key in {place}")
    return {name: Given(raw, Origin(OriginKind.FILE, place)) for name, raw in content.items()}


def _read_toml(file: Path, place: str) -> dict[str, object]:
    try:
        with file.open("rb") as stream:
            content = stream.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the settings in {place}: {error.strerror}") from None
    if len(content) > CONFIG_BYTES_MAX:
        raise InvalidArgumentError(f"{place} is larger than {CONFIG_BYTES_MAX} bytes, the limit of a settings file")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{place} is not UTF-8 text: bad byte at {error.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidArgumentError(f"{place} is not TOML: {' '.join(str(error).split())}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    ours = {
        name: value
        for name, value in environ.items()
        if name.startswith(VARIABLE_PREFIX) and value and not _is_service_link(name, value)
    }
    _refuse_unknown(
        ours, [*(setting.variable for setting in SETTINGS.values()), CONFIG_VARIABLE], "environment variable"
    )
    return {
        setting.name: Given(ours[setting.variable], Origin(OriginKind.ENVIRONMENT, setting.variable))
        for setting in SETTINGS.values()
        if setting.variable in ours
    }


def _is_service_link(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_URL.fullmatch(value):
        return True
    return _SERVICE_LINK.fullmatch(name) is not None


def _from_flags(flags: Mapping[str, object]) -> dict[str, Given]:
    _refuse_unknown(flags, SETTINGS, "flag")
    return {
        name: Given(raw, Origin(OriginKind.FLAG, SETTINGS[name].flag)) for name, raw in flags.items() if raw is not None
    }


def _refuse_unknown(found: Iterable[str], known: Iterable[str], what: str) -> None:
    candidates = list(known)
    for name in found:
        if name not in candidates:
            hint = did_you_mean(name, candidates) or "; `flotilla config show` lists all settings"
            raise InvalidArgumentError(f"unknown {what}: {name!r}{hint}")
