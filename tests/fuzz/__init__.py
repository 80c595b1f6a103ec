"""Fuzzing of the parsers; `python -m tests.fuzz --seconds 60`."""
