"""The examples of docs/grpc.md work as written, with nothing of Flotilla but the .proto."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flotilla.testing import LocalBroker
from flotilla.types.address import Address

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/grpc.md").read_text("utf-8"), re.DOTALL)
EXAMPLES = [text for kind, text in BLOCKS if kind == "python"]
PRINTED = next(text for kind, text in BLOCKS if not kind and text.startswith("stored at"))
EXPECTED = [PRINTED, "sent mail 0\nsent mail 1\nsent mail 2\n"]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated stubs that the guide describes, without the package."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools, part of the dev extra, makes the stubs")
    folder = tmp_path_factory.mktemp("stubs")
    out = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", *out, "proto/flotilla.proto"], cwd=ROOT, check=True
    )
    return folder


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_it_should(stubs: Path, number: int) -> None:
    script = stubs / f"example_{number}.py"
    script.write_text(EXAMPLES[number], "utf-8")
    with LocalBroker(grpc_listen=Address("127.0.0.1", 0)) as broker:
        done = subprocess.run(
            [sys.executable, str(script), broker.grpc_address], cwd=stubs, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == EXPECTED[number]


def test_the_examples_are_those_of_the_folder() -> None:
    files = [ROOT / "examples/grpc" / name for name in ("produce_and_poll.py", "subscribe.py")]
    assert [path.read_text("utf-8").partition('"""\n\n')[2] for path in files] == EXAMPLES
    assert len(EXAMPLES) == len(EXPECTED)
