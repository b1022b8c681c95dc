"""The complete run of the tests in two parts, side by side: `make test`.

Spark's tests share one session and so one process, which waits for most of its time; the others fill the processors
meanwhile. The first part's output is copied as it comes, the second part's after it. The output ends with the tests
that failed and with one closing line for both parts, in pytest's own form.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter

PARTS = {
    "all but Spark": ["-n", "2", "--dist", "loadgroup", "--ignore", "tests/integration/spark"],
    "Spark": ["-n", "0", "tests/integration/spark"],
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


def start_part(name: str, output: int) -> subprocess.Popen[bytes]:
    print(f"--- {name}: pytest {' '.join(PARTS[name])}", flush=True)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *PARTS[name]], stdout=output, stderr=subprocess.STDOUT
    )


def copy_output(process: subprocess.Popen[bytes], source: int) -> str:
    """Copies the output of a part to ours, to its end, and returns it."""
    output = bytearray()
    while chunk := os.read(source, 65536):
        output += chunk
        sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
    process.wait()
    return output.decode(errors="replace")


def main() -> int:
    started = time.monotonic()
    first, second = PARTS
    with tempfile.TemporaryFile() as kept:
        later = start_part(second, kept.fileno())
        now = start_part(first, subprocess.PIPE)
        assert now.stdout
        outputs = {first: copy_output(now, now.stdout.fileno())}
        later.wait()
        kept.seek(0)
        print(f"--- {second}", flush=True)
        outputs[second] = copy_output(later, kept.fileno())
    failed = []
    for name, process in ((first, now), (second, later)):
        if process.returncode:
            failed += [f"{name}: exit code {process.returncode}", *NOT_PASSED.findall(outputs[name])]
    print("--- all parts", *failed, sep="\n")
    total = sum((outcomes(output) for output in outputs.values()), Counter[str]())
    print(closing_line(total, time.monotonic() - started))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
