"""The TypeScript client: its own tests against real brokers, and what it shares with the rest of the project."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flotilla.codec.generated import client_pb2
from flotilla.types.errors import ALL_ERRORS
from tests.typescript import IN_ONE_PROCESS, SDK, built, environment, run

pytestmark = [pytest.mark.slow, IN_ONE_PROCESS]

ROOT = SDK.parents[1]
BACKUP = "for `flotilla backup` and `restore`"
PIPELINE = "for pipelines, which run in Python"
CONSOLE = "for the console, which asks over HTTP"
#: Operations of the contract that the client does not offer, and why.
NOT_OFFERED = {
    "hello": "part of every connection",
    "authenticate": "part of every connection",
    "read_log": BACKUP,
    "read_snapshot": BACKUP,
    "hold_settlements": BACKUP,
    "report_pipeline": PIPELINE,
    "list_pipelines": PIPELINE,
    "count_partitions": CONSOLE,
    "list_clients": CONSOLE,
    "list_blocked_keys": CONSOLE,
    "read_due_times": CONSOLE,
    "list_delayed": CONSOLE,
    "deliver_now": CONSOLE,
}


def test_every_operation_has_a_row() -> None:
    table = (SDK / "src" / "codec" / "operations.ts").read_text("utf-8")
    rows = {re.sub("[A-Z]", r"_\g<0>", name).lower() for name in re.findall(r"^  (\w+): row\(", table, re.MULTILINE)}
    contract = {field.name for field in client_pb2.Request.DESCRIPTOR.oneofs_by_name["body"].fields}
    assert rows | NOT_OFFERED.keys() == contract
    assert not rows & NOT_OFFERED.keys()


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    built()
    pytest.importorskip("grpc_tools", reason="grpcio-tools, part of the dev extra, makes the code to compare with")
    plugin = SDK / "node_modules" / ".bin" / "protoc-gen-es"
    options = [f"--plugin=protoc-gen-es={plugin}", f"--es_out={tmp_path}", "--es_opt=target=ts,import_extension=js"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", *options, "proto/client.proto"]
    subprocess.run(command, cwd=ROOT, check=True)
    kept = SDK / "src" / "generated" / "client_pb.ts"
    assert kept.read_text("utf-8") == (tmp_path / "client_pb.ts").read_text("utf-8"), "run `make proto`"


def test_errors_are_those_of_the_brokers() -> None:
    built()
    script = "const { ERROR_TABLE } = await import('flotilla-mq'); console.log(JSON.stringify(ERROR_TABLE))"
    found = {row["number"]: row for row in json.loads(run("--input-type=module", "-e", script))}
    rows = [error.row for error in ALL_ERRORS]
    assert found == {row.code: {"number": row.code, "code": row.name, "retryable": row.retryable} for row in rows}


def test_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (SDK / "package-lock.json").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(path.stem for path in (SDK / "test").glob("*.test.ts")))
def test_own_tests(name: str) -> None:
    built()
    run("--test", "--test-timeout=120000", f"build/{name}.js")


def test_package_installs_into_an_empty_project(tmp_path: Path) -> None:
    built()
    packed = subprocess.run(
        ["npm", "pack", "--ignore-scripts", "--pack-destination", str(tmp_path)],
        cwd=SDK, env=environment(), capture_output=True, text=True, check=True,
    ).stdout.split()[-1]  # fmt: skip
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    command = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", f"./{packed}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm install failed, perhaps for lack of a registry: {done.stderr[-300:]}")
    script = (
        "import { Client } from 'flotilla-mq'; new Client('127.0.0.1:7600').close().then(() => console.log('fine'))"
    )
    printed = subprocess.run(
        ["node", "--input-type=module", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert printed == "fine\n"
    compile_documentation(tmp_path)


def compile_documentation(project: Path) -> None:
    """The pieces of the documentation need no cast, nor anything else than the installed package."""
    blocks = re.findall(r"```ts\n(.*?)```", (SDK / "README.md").read_text("utf-8"), re.DOTALL)
    page = re.findall(r"```ts\n(.*?)```", (ROOT / "docs" / "clients.md").read_text("utf-8"), re.DOTALL)
    pieces = [*blocks, "".join(page)]
    assert len(pieces) > 2
    assert all(pieces)
    for number, piece in enumerate(pieces):
        first = "" if "import " in piece else 'import { Client } from "flotilla-mq";\n'
        (project / f"piece{number}.ts").write_text(first + piece, "utf-8")
    options = {"strict": True, "noEmit": True, "target": "es2022", "module": "nodenext"} | {
        "lib": ["es2023", "esnext.disposable"],
        "typeRoots": [str(SDK / "node_modules" / "@types")],
        "types": ["node"],
    }
    (project / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}), "utf-8")
    compiler = SDK / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([str(compiler), "-p", str(project)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
