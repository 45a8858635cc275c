"""The lanes of `make test`: which tests each runs, with how many workers, and what it waits for.

On the federation a test mostly waits for what others do, so many share one. Those that end, freeze or reconfigure what
is shared (marked `alone`) come one by one when the others are through, and mostly wait: so the tests that only compute
run beside them. Tests with a federation of their own (marked `own`) disturb nobody, and run from the beginning, but for
those that take most of a machine (marked `late`, too), which also run beside the ones that mostly wait.
"""

from dataclasses import dataclass

WHOLE = "SUITE_IS_WHOLE"  # set where the lane that this one follows has run all of its tests
ON_THE_FEDERATION = ("tests/federation", "tests/kube", "tests/docs", "tests/pki")


@dataclass(frozen=True, slots=True)
class Lane:
    """One pytest run, or another command that must succeed."""

    name: str
    arguments: tuple[str, ...]  # of pytest
    command: tuple[str, ...] = ()  # instead of pytest
    workers: int = 0  # of xdist; 0: the tests run one by one
    distribution: str = "worksteal"  # xdist's way of giving tests to workers
    niceness: int = 0
    needs_federation: bool = False
    after: str = ""  # the lane that must be through before this one begins


LANES = (
    Lane("lint", (), command=("make", "--no-print-directory", "lint")),
    Lane(
        "shared",
        (*ON_THE_FEDERATION, "-m", "federation and not alone and not own and not soak"),
        workers=5,
        needs_federation=True,
    ),
    # What a module starts is started once: so `loadfile`.
    Lane("own", ("tests", "-m", "own and not late and not soak"), workers=1, distribution="loadfile"),
    Lane("late", ("tests", "-m", "own and late and not soak"), workers=1, distribution="loadfile", after="shared"),
    Lane("alone", (*ON_THE_FEDERATION, "-m", "alone and not soak"), needs_federation=True, after="shared"),
    Lane(
        "computing",
        ("tests", "-m", "not federation and not own and not alone and not soak"),
        workers=2,
        niceness=5,
        after="shared",
    ),
)
