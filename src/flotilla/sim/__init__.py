"""The simulator: a whole cluster in one process from one integer.

`devices/` are the simulated network, disk and clock; `ledger/`, `queue/` and `stream/` the workloads; `checkers/`
what must always hold; `mutants/` the deliberate bugs that it must find. Nothing that ships to production imports it.
"""
