"""The lanes of `make test`: which tests each runs, with how many workers, and what it waits for.

On the federation a test mostly waits for what others do, so many share one. Those that end, freeze or reconfigure what
is shared (marked `alone`) come one by one when the others are through, and mostly wait: so the tests that only compute
run beside them. Tests with a federation of their own (marked `own`) disturb nobody, and run from the beginning, but for
those that take most of a machine (marked `late`, too), which also run beside the ones that mostly wait.

No test waits for a compiler, for that may take longer than any test should: a lane that runs programs begins when they
are built.
"""

from dataclasses import dataclass
from enum import IntEnum

WHOLE = "SUITE_IS_WHOLE"  # set where the lane that this one follows has run all of its tests
ON_THE_FEDERATION = ("tests/federation", "tests/kube", "tests/docs", "tests/pki")


class Stage(IntEnum):
    """How far a run has come: every stage has what those before it have."""

    CHECKOUT = 0
    PROGRAMS = 1  # everything that tests start is built
    FEDERATION = 2  # the one that tests share is up


@dataclass(frozen=True, slots=True)
class Lane:
    """One pytest run, or another command that must succeed."""

    name: str
    arguments: tuple[str, ...]  # of pytest
    command: tuple[str, ...] = ()  # instead of pytest
    workers: int = 0  # of xdist; 0: the tests run one by one
    distribution: str = "worksteal"  # xdist's way of giving tests to workers
    niceness: int = 0
    needs: Stage = Stage.CHECKOUT
    after: str = ""  # the lane that must be through before this one begins


LANES = (
    Lane("lint", (), command=("make", "--no-print-directory", "lint")),
    Lane(
        "shared",
        (*ON_THE_FEDERATION, "-m", "federation and not alone and not own and not soak"),
        workers=5,
        needs=Stage.FEDERATION,
    ),
    # What a module starts is started once: so `loadfile`.
    Lane(
        "own",
        ("tests", "-m", "own and not late and not soak"),
        workers=1,
        distribution="loadfile",
        needs=Stage.PROGRAMS,
    ),
    Lane(
        "late",
        ("tests", "-m", "own and late and not soak"),
        workers=1,
        distribution="loadfile",
        needs=Stage.PROGRAMS,
        after="shared",
    ),
    Lane("alone", (*ON_THE_FEDERATION, "-m", "alone and not soak"), needs=Stage.FEDERATION, after="shared"),
    Lane(
        "computing",
        ("tests", "-m", "not federation and not own and not alone and not soak"),
        workers=2,
        niceness=5,
        after="shared",
    ),
)
