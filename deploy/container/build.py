"""Builds the image of the Containerfile without an engine and without a registry of images.

    sudo python3 deploy/container/build.py --output flotilla.tar
    podman load --input flotilla.tar        # or docker load, or skopeo copy oci-archive:flotilla.tar ...

The root file system comes from packages of Debian (`debootstrap`, which needs root), and Flotilla is installed in it
by pip. Everything else, such as variables, user, ports and health check, is read from the Containerfile.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The release of Debian with the Python of the Containerfile.
SUITE = "trixie"
PACKAGES = "python3,python3-venv,ca-certificates,tzdata"
INSTALLED = "/opt/flotilla"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NANOSECONDS = 1_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("flotilla.tar"))
    parser.add_argument("--tag", default="flotilla:latest")
    parser.add_argument("--mirror", default="", help="of Debian's packages; else that of debootstrap")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "root"
        fill(tree, given.mirror)
        settings = image_settings((ROOT / "deploy/container/Containerfile").read_text("utf-8"))
        write_image(tree, settings, given.tag, given.output)


def fill(tree: Path, mirror: str) -> None:
    """Puts the root file system into a folder."""
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(tree), *filter(None, [mirror]))
    shutil.copytree(ROOT, tree / "source", ignore=shutil.ignore_patterns(".*", "node_modules", "target"))
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).exists():
            shutil.copy(Path("/", name), tree / name)
    run("chroot", str(tree), "python3", "-m", "venv", INSTALLED)
    pip = [f"{INSTALLED}/bin/pip", "install", "--quiet", "--no-cache-dir"]
    run("chroot", str(tree), *pip, "/source[server,security]")
    run("chroot", str(tree), "update-ca-certificates", "--fresh")
    run("chroot", str(tree), "apt-get", "clean")
    for left in ("source", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "var/log"):
        shutil.rmtree(tree / left, ignore_errors=True)
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    (tree / "data").mkdir()
    os.chown(tree / "data", 10001, 10001)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


# The image.


def image_settings(containerfile: str) -> dict[str, Any]:
    """How a container runs, by the last stage of a Containerfile, in the words of an image's configuration."""
    settings: dict[str, Any] = {"Env": [], "ExposedPorts": {}, "Volumes": {}}
    for instruction, argument in instructions(containerfile):
        if instruction == "FROM":
            settings = {"Env": [], "ExposedPorts": {}, "Volumes": {}}
        elif instruction == "ENV":
            settings["Env"] += [with_path(variable) for variable in shlex.split(argument)]
        elif instruction == "USER":
            settings["User"] = argument
        elif instruction == "VOLUME":
            settings["Volumes"][argument] = {}
        elif instruction == "EXPOSE":
            settings["ExposedPorts"].update({f"{port}/tcp": {} for port in argument.split()})
        elif instruction in ("ENTRYPOINT", "CMD"):
            settings[instruction.capitalize()] = json.loads(argument)
        elif instruction == "HEALTHCHECK":
            settings["Healthcheck"] = health_check(argument)
        elif instruction not in ("COPY", "RUN"):
            raise SystemExit(f"this script does not know the instruction {instruction}")
    return settings


def instructions(containerfile: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in containerfile.splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        instruction, _, argument = line.partition(" ")
        yield instruction, argument.strip()


def with_path(variable: str) -> str:
    return variable.replace("$PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def health_check(argument: str) -> dict[str, Any]:
    flags, _, command = argument.partition(" CMD ")
    given = dict(flag.removeprefix("--").split("=") for flag in flags.split())
    names = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod"}
    seconds = {name: int(given[flag].removesuffix("s")) for flag, name in names.items()}
    durations = {name: value * NANOSECONDS for name, value in seconds.items()}
    return {"Test": ["CMD", *json.loads(command)], **durations, "Retries": int(given["retries"])}


def write_image(tree: Path, settings: dict[str, Any], tag: str, output: Path) -> None:
    """An archive of one layer, in the layout of OCI and in that of `docker save`."""
    with tarfile.open(output, "w") as archive:
        layer = archive_of(tree)
        packed = gzip.compress(layer, mtime=0)
        configuration = encoded(
            {
                "architecture": ARCHITECTURES[platform.machine()],
                "os": "linux",
                "config": settings,
                "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
            }
        )
        manifest = encoded(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": descriptor(configuration, "application/vnd.oci.image.config.v1+json"),
                "layers": [descriptor(packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
            }
        )
        index = descriptor(manifest, "application/vnd.oci.image.manifest.v1+json")
        index["annotations"] = {"org.opencontainers.image.ref.name": tag.rpartition(":")[2]}
        for blob in (packed, configuration, manifest):
            add(archive, blob_path(blob), blob)
        add(archive, "oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
        add(archive, "index.json", encoded({"schemaVersion": 2, "manifests": [index]}))
        saved = {"Config": blob_path(configuration), "RepoTags": [tag], "Layers": [blob_path(packed)]}
        add(archive, "manifest.json", encoded([saved]))


def archive_of(tree: Path) -> bytes:
    """The files of the layer, with their owners and rights. The same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            member = archive.gettarinfo(path, str(path.relative_to(tree)))
            member.mtime = 0
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            elif not member.isdev():
                archive.addfile(member)
    return buffer.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def blob_path(content: bytes) -> str:
    return "blobs/" + digest(content).replace(":", "/")


def descriptor(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


if __name__ == "__main__":
    main()
