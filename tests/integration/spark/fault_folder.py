"""Where Spark's processes look for faults: they inherit the variable from the JVM."""

VARIABLE = "FLOTILLA_TEST_FAULTS"
