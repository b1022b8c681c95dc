"""What a log keeps in memory: its newest entries, and the terms of all."""
