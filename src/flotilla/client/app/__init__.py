"""Tasks in Python: functions that are called by messages. A thin layer over `Worker`."""
