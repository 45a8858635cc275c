"""When Karmada will try again by itself what it was refused: read from its logs.

After each failure it waits twice as long as before, from 5 ms on; a success starts that anew. A test of what we wake,
and in which order, has to act in such a pause: whoever tries by themselves just when room comes free may get it first.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tests.federation.stage import Stage

FIRST_SECONDS: Final = 0.005
LONGEST_SECONDS: Final = 1000.0
TRY_SECONDS: Final = 15.0
"""How long a try takes at most. One that was due earlier and has not failed has succeeded, which may not be logged."""
_TIME: Final = re.compile(r"[A-Z](\d{4} \d\d:\d\d:\d\d\.\d{6})")

Texts = Sequence[str]
"""All of these are in a line."""


def is_pausing(stage: Stage, name: str, seconds: float) -> bool:
    """Whether Karmada tries nothing for that Deployment by itself, neither now nor within so many seconds."""
    binding = f"{stage.namespace}/{name}-deployment"
    detector = [f", {stage.namespace}/{name}. error: "], [f"ResourceBinding({binding}) successfully"]
    scheduler = [f'object="{binding}"', "ScheduleBindingFailed"], [f'object="{binding}"', "ScheduleBindingSucceed"]
    log = stage.federation.directory.log
    failures = (
        _failures(log("karmada-controller-manager"), *detector),
        _failures(log("karmada-scheduler"), *scheduler),
    )
    now = datetime.now()
    after, before = now - timedelta(seconds=TRY_SECONDS), now + timedelta(seconds=seconds)
    return not any(one and _is_due(one, max(after, one[-1]), before) for one in failures)


def _is_due(failures: Sequence[datetime], after: datetime, before: datetime) -> bool:
    """Whether there is a try between these times; it may be on its way."""
    pauses = [min(FIRST_SECONDS * 2**number, LONGEST_SECONDS) for number in range(len(failures))]
    tries = [failed + timedelta(seconds=pause) for failed, pause in zip(failures, pauses, strict=True)]
    return any(after < at < before for at in tries)


def _failures(log: Path, failed: Texts, succeeded: Texts) -> list[datetime]:
    """Those since the last success."""
    found: list[datetime] = []
    year = datetime.now().year
    with log.open(errors="replace") as lines:
        for line in lines:
            if all(text in line for text in succeeded):
                found.clear()
            elif all(text in line for text in failed) and (time := _TIME.match(line)):
                found.append(datetime.strptime(f"{year} {time[1]}", "%Y %m%d %H:%M:%S.%f"))
    return found
