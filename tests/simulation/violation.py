"""The finding of a simulation."""


class Violation(AssertionError):  # noqa: N818 - it is the finding, not a failure of the simulation
    """Something that must never happen has happened."""
