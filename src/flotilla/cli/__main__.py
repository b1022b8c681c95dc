"""The start of the `flotilla` command, and of `python -m flotilla.cli`, as processes of this package start each other.

Says what to install where only the client is installed. While the command loads, the garbage collector rests: there is
nothing to collect yet, and looking for it takes a tenth of the time. `load_verb` wakes it.
"""

import gc
import sys

#: What the extra `server` brings.
_EXTRA = ("cronsim", "grpc", "grpc_health", "grpc_reflection", "rich", "typer", "uvloop")


def main() -> None:
    gc.disable()
    try:
        from flotilla.cli.app import main as run

        run()
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _EXTRA:
            raise
        if name == "uvloop" and sys.platform == "win32":
            sys.exit("flotilla: brokers run on Linux and macOS; on Windows there is the client, for a broker elsewhere")
        sys.exit(
            f"flotilla: {name} is not installed; the command line and the broker need the extra `server`: "
            "pip install 'flotilla-mq[server]'"
        )


if __name__ == "__main__":
    main()
