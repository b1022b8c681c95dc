"""The complete run of the tests in two parts: `make test`.

Spark's tests run first and alone, because a Spark session uses both processors. Both parts run, also when the first one
fails. The output ends with the tests that failed and with one closing line for both parts, in pytest's own form.
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable

PARTS = {
    "Spark": ["-n", "0", "--timeout", "300", "tests/integration/spark"],
    "all others": ["-n", "2", "--dist", "loadgroup", "--ignore", "tests/integration/spark"],
}

#: The outcomes of pytest's closing line, in its order.
OUTCOMES = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error")
CLOSING = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b", re.MULTILINE)
NOT_PASSED = re.compile(r"^(?:FAILED|ERROR) .*$", re.MULTILINE)


def outcomes(output: str) -> Counter[str]:
    """The counts of the last closing line in the output; a run without one (a crash) is one error."""
    closings = CLOSING.findall(output)
    if not closings:
        return Counter(error=1)
    counts = Counter[str]()
    for count, outcome in re.findall(r"(\d+) ([a-z]+)", closings[-1]):
        counts[outcome.removesuffix("s") if outcome in ("errors", "warnings") else outcome] += int(count)
    return counts


def closing_line(counts: Counter[str], seconds: float) -> str:
    """A closing line as pytest writes it: `3 failed, 2900 passed, 1 skipped in 512.34s`."""
    shown = [
        f"{counts[outcome]} {outcome}{'s' if outcome in ('error', 'warning') and counts[outcome] > 1 else ''}"
        for outcome in OUTCOMES
        if counts[outcome]
    ]
    return f"{', '.join(shown) or 'no tests ran'} in {seconds:.2f}s"


def run_part(arguments: Iterable[str]) -> tuple[int, str]:
    """Runs pytest, copies its output to ours as it comes, and returns its exit code and its output."""
    output = bytearray()
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout
        while chunk := os.read(process.stdout.fileno(), 65536):
            output += chunk
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
    return process.returncode, output.decode(errors="replace")


def main() -> int:
    started = time.monotonic()
    total = Counter[str]()
    failed = []
    for name, arguments in PARTS.items():
        print(f"--- {name}: pytest {' '.join(arguments)}", flush=True)
        code, output = run_part(arguments)
        total += outcomes(output)
        if code:
            failed += [f"{name}: exit code {code}", *NOT_PASSED.findall(output)]
    print("--- all parts", *failed, sep="\n")
    print(closing_line(total, time.monotonic() - started))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
