"""Builds a Debian package of a node: the command, a systemd unit, a user, and a file of settings.

    python3 deploy/debian/build.py --output dist

The interpreter that runs this script is the one that the package will need. Dependencies are installed into it, because
those of Debian are too old; `--without-dependencies` leaves them out, for a look at the rest.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "usr/lib/flotilla"
COMMAND = "usr/bin/flotilla"
EXTRAS = ("server", "security")

LAUNCHER = """\
#!/bin/sh
# -P: a module in the current directory never takes the place of one of the package.
PYTHONPATH=/{library} exec /usr/bin/{python} -P -m flotilla.cli "$@"
"""
SETTINGS = """\
# The settings of this node: see docs/reference/settings.md, or `flotilla config show`.
# A cluster of three names its nodes here; alone, a node is a cluster by itself.
node_id = 1
# peers = {1 = "a.example:7601", 2 = "b.example:7601", 3 = "c.example:7601"}
"""
AFTER_INSTALLATION = """\
#!/bin/sh
set -e
if ! getent passwd flotilla >/dev/null; then
    adduser --system --group --home /var/lib/flotilla --no-create-home --quiet flotilla
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
"""
BEFORE_REMOVAL = """\
#!/bin/sh
set -e
# An upgrade goes on with the old process until it is restarted: flotilla cluster restart --rolling.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop flotilla
fi
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--without-dependencies", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        # The default is for its owner alone.
        tree.chmod(0o755)
        fill(tree, has_dependencies=not given.without_dependencies)
        given.output.mkdir(parents=True, exist_ok=True)
        build = ["dpkg-deb", "--root-owner-group", "--build", tree, given.output]
        subprocess.run(build, check=True)


def fill(tree: Path, *, has_dependencies: bool) -> None:
    """Puts the content of the package into a folder."""
    python = f"python3.{sys.version_info.minor}"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/flotilla", tree / LIBRARY / "flotilla", ignore=ignored)
    if has_dependencies:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", tree / LIBRARY]
        subprocess.run([*pip, *dependencies()], check=True)
    write(tree / COMMAND, LAUNCHER.format(library=LIBRARY, python=python), 0o755)
    unit = (ROOT / "deploy/systemd/flotilla.service").read_text("utf-8")
    write(tree / "lib/systemd/system/flotilla.service", unit.replace("/opt/flotilla/bin/flotilla", f"/{COMMAND}"))
    write(tree / "etc/flotilla/node.toml", SETTINGS)
    write(tree / "usr/share/doc/flotilla/copyright", (ROOT / "LICENSE").read_text("utf-8"))
    write(tree / "DEBIAN/control", control(tree, python, has_dependencies=has_dependencies))
    write(tree / "DEBIAN/conffiles", "/etc/flotilla/node.toml\n")
    write(tree / "DEBIAN/postinst", AFTER_INSTALLATION, 0o755)
    write(tree / "DEBIAN/prerm", BEFORE_REMOVAL, 0o755)


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]


def control(tree: Path, python: str, *, has_dependencies: bool) -> str:
    # Some dependencies are compiled.
    ours = ["dpkg", "--print-architecture"]
    architecture = subprocess.run(ours, check=True, capture_output=True, text=True).stdout.strip()
    size_bytes = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    fields = {
        "Package": "flotilla",
        "Version": debian_version(),
        "Section": "net",
        "Priority": "optional",
        "Architecture": architecture if has_dependencies else "all",
        "Depends": f"{python}, adduser",
        "Installed-Size": str(size_bytes // 1024),
        "Maintainer": "Flotilla contributors <flotilla@localhost>",
        "Description": "message queue in which every partition is its own Raft group\n"
        " One topic serves as a work queue and as an ordered log; an acknowledged message\n"
        " is on disk at a majority of its replicas. Settings: /etc/flotilla/node.toml.",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def debian_version() -> str:
    """A version before a release sorts before it: 0.2.0.dev0 is 0.2.0~dev0."""
    text = (ROOT / "src/flotilla/types/version.py").read_text("utf-8")
    found = re.search(r'"(\d+\.\d+\.\d+)\.?(\w*)"', text)
    assert found is not None, "no version"
    return found[1] + (f"~{found[2]}" if found[2] else "")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)


if __name__ == "__main__":
    main()
