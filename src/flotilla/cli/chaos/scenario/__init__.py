"""The scenarios of a chaos run: tables of faults, the rig that they act on, and the run itself."""
