"""The authority that signs the webhook's certificates ends, sooner than anybody rotated it.

As it is when controllers were away for months: what they find in the Secret is about to end, and what webhook replicas
sign with it ends with it. Replicas that start just then have nothing else to serve.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta

from faults.fault import Fault, Scene
from faults.ground import WEBHOOKS, Ground
from federation_quota import names
from federation_quota.pki import secret
from federation_quota.pki.authority import AUTHORITY_LIFETIME, create_authority
from federation_quota.pki.rotation import RotationState
from localfed import quota

LEFT_SECONDS = 25.0


def faults() -> list[Fault]:
    """The one."""
    return [Fault("the authority expires, and what it signed", _expire, recovery_seconds=120)]


async def _expire(scene: Scene) -> None:
    end = datetime.now(UTC) + timedelta(seconds=LEFT_SECONDS)
    await asyncio.to_thread(_replace_authority, scene.ground, end)
    for name in WEBHOOKS:
        await scene.ground.kill(name)
        await scene.ground.launch(name)  # it may not be ready before all is over
    await asyncio.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds()))


def _replace_authority(ground: Ground, end: datetime) -> None:
    state = RotationState(signing=create_authority(end - AUTHORITY_LIFETIME))
    # Replaced whole: entries of the old one that the new one has not are gone.
    where = ("secret", names.AUTHORITY_SECRET, "-n", quota.NAMESPACE)
    stored = ground.federation.kubectl.json("get", *where)
    stored["data"] = secret.encode(state)
    ground.federation.kubectl("replace", "-f", "-", manifest=json.dumps(stored))
