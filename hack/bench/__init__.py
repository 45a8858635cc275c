"""Measurements of the library's own code, always as a ratio to a yardstick measured in the same run.

Nanoseconds belong to a machine and to what else it is doing; a ratio taken in alternation belongs to the code. Bars
are therefore set on ratios, and nowhere else: no test asserts a time. Run with `python -m bench`.
"""
