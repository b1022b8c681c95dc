"""The reference page of settings, generated from the table: `REWRITE=1 pytest tests/tidy/test_settings_docs.py`."""

from flotilla.cli.config import toml_line
from flotilla.types.setting_table import Scope, Setting
from flotilla.types.settings import SETTINGS

PATH = "docs/reference/settings.md"

_HEAD = """\
# Settings

A node takes its settings from flags, then from `FLOTILLA_*` variables, then from a TOML file, then from the \
defaults below. The file is named by `--config` or by `FLOTILLA_CONFIG`. A key is the same word everywhere: \
`http_listen` in the file is `--http-listen` as a flag and `FLOTILLA_HTTP_LISTEN` in the environment.

`flotilla config show` prints every value in force and its origin, and takes the same flags as `flotilla serve`. \
Piped into a file it writes TOML that gives the same values again.

An unknown key or variable is an error, and so is a value that is not allowed: a node does not start with settings \
that it does not understand. An empty variable counts as absent. The variables that Kubernetes sets for services \
(`FLOTILLA_SERVICE_HOST` and similar) are ignored. Topics and groups have [settings of their own](topic-settings.md).

## How values are written

| what | written | remarks |
| --- | --- | --- |
| duration | `100ms`, `30s`, `5m`, `2h`, `1d` | whole numbers; a bare one counts milliseconds |
| size | `512B`, `64KiB`, `64MiB`, `1GiB` | powers of 1024; a bare number counts bytes |
| address | `127.0.0.1:7600`, `node1:7600`, `[::1]:7600` | names are looked up when they are used |
| several addresses | `node1:7600,node2:7600` | in a file also an array of strings |
| peers | `2=node2:7601,3=node3:7601` | in a file also a table: `[peers]`, then `2 = "node2:7601"` |
| true or false | `true`, `yes`, `on`, `1`; `false`, `no`, `off`, `0` | in a file also without quotes |

*Scope* says whether nodes may differ: a value of scope *cluster* must be the same on every node.
"""

_RULES = """\
## Rules between settings

- `peers` forms a new cluster and `join` enters a running one: give one of them, or neither for a single node.
- Two listeners of a node cannot share an address.
- The nodes of a cluster must reach each other: where a node listens on all interfaces, or on loopback while the \
others are on other machines, set `advertise` and `peer_advertise` to addresses that the others can reach.
- `election_timeout_ms` is at least twice `heartbeat_ms`, and 300 ms more; `quiesce_ms` is 0 or at least `heartbeat_ms`.
"""


def render() -> str:
    sections = [_section(name) for name in dict.fromkeys(setting.section for setting in SETTINGS.values())]
    return "\n".join([_HEAD, *sections, _RULES, _file()])


def _section(name: str) -> str:
    head = f"## {name}\n\n| key | default | allowed | scope | meaning |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(_row(setting) for setting in SETTINGS.values() if setting.section == name)


def _row(setting: Setting) -> str:
    default = setting.kind.format(setting.default)
    shown = f"`{default}`" if default else "none"
    scope = "cluster" if setting.scope is Scope.CLUSTER else "node"
    return f"| `{setting.name}` | {shown} | {setting.kind.allowed} | {scope} | {setting.help} |\n"


def _file() -> str:
    lines = "".join(f"{toml_line(setting, setting.default)}\n" for setting in SETTINGS.values())
    return f"## A file with all defaults\n\n```toml\n{lines}```\n"
