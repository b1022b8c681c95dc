"""The named points of the driver's work where the simulator may cut the power."""

#: One after each step of the pump. `saved` is before the sync, `synced` after it.
CRASH_POINTS = (
    "saved",
    "syncing",
    "synced",
    "sent",
    "applied",
    "replied",
    "installing",
    "installed",
    "snapshot",
    "maintained",
)
