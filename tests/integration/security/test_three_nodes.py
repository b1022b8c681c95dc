"""The set-up of docs/security.md, executed as it is written, on other ports."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.ports import free_ports

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text("utf-8")
PORTS = ("7600", "7601", "7680", "7650", "7700", "7701", "7780", "7750", "7800", "7801", "7880", "7850")


def blocks(language: str, section: str) -> list[str]:
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_three_nodes_are_set_up_as_written(tmp_path: Path) -> None:
    chosen = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))

    def here(text: str) -> str:
        # The first node has the default ports.
        text = text.replace(
            "--node-id 1 ",
            "--node-id 1 --listen 127.0.0.1:7600 --peer-listen 127.0.0.1:7601 "
            "--http-listen 127.0.0.1:7680 --grpc-listen 127.0.0.1:7650 ",
        )
        return re.sub("|".join(PORTS), lambda match: chosen[match[0]], text)

    commands = [line[2:] for block in blocks("console", "Three nodes in five minutes") for line in block.splitlines()]
    commands += [line[2:] for line in blocks("console", "Rotation")[0].splitlines()]
    python = blocks("python", "Three nodes in five minutes")[0]
    (tmp_path / "second.py").write_text(here(python))
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, arguments in (("flotilla", "-m flotilla.cli"), ("python3", "")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (bin_folder / name).chmod(0o755)
    script = "\n".join(["set -e", f"export FLOTILLA_SERVERS=127.0.0.1:{chosen['7600']}", *map(here, commands)])
    ending = "python3 second.py\nflotilla consume orders --count 2\nkill $(jobs -p)\nwait"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ending}"],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("FLOTILLA_")},
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flotilla://shop/node/1" in done.stdout
    assert '"status":"ok"' in done.stdout.replace(" ", "")
    assert {"first", "second"} <= set(done.stdout.split())
