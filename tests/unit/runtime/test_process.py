"""The settings of the process take hold. In a process of their own: they cannot be taken back."""

import subprocess
import sys

SCRIPT = """
import gc, sys
from flotilla.runtime.process import GC_THRESHOLDS, SWITCH_INTERVAL_S, tune_process
tune_process()
assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-6
assert gc.get_freeze_count() > 1000
assert gc.get_threshold() == GC_THRESHOLDS
from flotilla.runtime.observability.process_usage import GC_PAUSE_TIMER
assert GC_PAUSE_TIMER.pauses.count == 0
gc.collect()
assert GC_PAUSE_TIMER.pauses.count == 1
"""


def test_settings_take_hold() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
