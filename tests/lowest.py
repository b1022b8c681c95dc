"""`python -m tests.lowest`: the oldest declared versions of all dependencies, in an environment of their own.

Builds the wheel and installs it into temporary environments: alone, to see that the client is light, and with the
extras and every dependency at its lower bound. There it runs tests that use each of them: the codec with lz4 and zstd,
a broker process, the client, gRPC, the command line, the lake.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ("server", "otel", "security", "lake")
#: What the tests themselves need, at any version.
TOOLS = ("h11", "httpx", "hypothesis", "opentelemetry-sdk", "pytest<9.2", "pytest-timeout")
HEAVY = {"grpcio", "typer", "rich", "uvloop", "cronsim"}
TESTS = (
    "tests/unit/client/test_light_install.py",
    "tests/unit/codec/batch",
    "tests/unit/lake",
    "tests/unit/security/test_certificates.py",
    "tests/integration/cli/test_commands.py",
    "tests/integration/grpc/test_proxy.py",
    "tests/integration/testing/test_local_broker.py",
)


def lowest(extras: tuple[str, ...]) -> list[str]:
    """`name==version` for the lower bound of every dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    return [re.sub(r"^([\w-]+)>=([\w.]+).*", r"\1==\2", each) for each in wanted]


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def environment(folder: Path, *packages: str | Path) -> Path:
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return folder / "bin"


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
        wheel = next(folder.glob("*.whl"))
        light = environment(folder / "light", wheel)
        installed = set(run(light / "pip", "list", "--format=freeze").replace("==", "\n").split())
        assert not HEAVY & installed, f"the client brings {HEAVY & installed}"
        run(light / "python", "-c", "from flotilla import Client, AsyncClient, App, Worker")
        print(f"the client brings {len(installed) // 2 - 3} packages beside itself", flush=True)
        bounds = lowest(EXTRAS)
        print("oldest versions:", ", ".join(bounds), flush=True)
        old = environment(folder / "old", f"{wheel}[{','.join(EXTRAS)}]", *bounds, *TOOLS)
        subprocess.run([old / "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
