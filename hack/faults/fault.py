"""A fault: what is done to the ground, for how long, and what may be expected of it."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from faults.etcd import Etcd
from faults.ground import Ground
from faults.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may use. The recorder is told when the store itself is put back."""

    ground: Ground
    recorder: Recorder
    store: Etcd
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `inject` returns when it is over: what was killed runs again, what was cut flows."""

    name: str
    inject: Callable[[Scene], Awaitable[None]]
    is_kill: bool = False  # recovery is counted from its begin, not from its end
    recovery_seconds: float = 60.0  # that may pass before this counts as no recovery
