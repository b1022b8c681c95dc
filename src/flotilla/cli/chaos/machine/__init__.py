"""Machines that fail: brokers as processes, with disks, clocks, power and networks that a chaos run can break."""
