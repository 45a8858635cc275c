"""etcd without space, and etcd put back to what it was a while ago."""

import asyncio
import shutil
from pathlib import Path

from faults.fault import Fault, Scene
from faults.ground import API_SERVER, ETCD
from localfed.errors import FederationError

FULL_SECONDS = 14.0  # beyond every Lease of the product's
LOST_SECONDS = 12.0  # of history
TINY_BYTES = 1 << 20

# What an administrator starts again after a restore, as Kubernetes asks for. Not the product: it notices by itself.
FOLLOWERS = ("federation-controller-manager", "karmada-controller-manager", "karmada-scheduler", "karmada-webhook")


def faults() -> list[Fault]:
    """Both."""
    return [
        Fault("etcd is out of space", _fill, recovery_seconds=90),
        Fault("etcd is restored from an older state", _restore, recovery_seconds=180),
    ]


async def _fill(scene: Scene) -> None:
    """A backend quota below what is stored: etcd raises its alarm, and writes nothing until an administrator acts."""
    ground = scene.ground
    await ground.kill(ETCD)
    ground.reflag(ETCD, f"--quota-backend-bytes={TINY_BYTES}")
    await ground.start(ETCD)
    await asyncio.sleep(FULL_SECONDS)
    alarms = (await scene.store.call("/v3/maintenance/alarm", {"action": "GET"})).get("alarms") or []
    await ground.kill(ETCD)
    ground.reflag(ETCD)
    await ground.start(ETCD)
    await scene.recorder.caught_up()  # or what is compacted would be missing in the history
    version, _ = await scene.store.read("/", "/")
    await scene.store.call("/v3/kv/compaction", {"revision": str(version)})
    await scene.store.call("/v3/maintenance/defragment", {})
    for alarm in alarms:
        await scene.store.call("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})
    if not any(one.get("alarm") == "NOSPACE" for one in alarms):
        raise FederationError(f"etcd raised no alarm: {alarms}")


async def _restore(scene: Scene) -> None:
    """The store forgets what was written lately, and counts its versions anew from there."""
    ground = scene.ground
    folder = ground.federation.directory.etcd
    kept = folder.with_name("etcd-kept")
    servers = [API_SERVER, *(f"{member}-apiserver" for member in ground.federation.members)]
    await ground.kill(ETCD)
    await asyncio.to_thread(shutil.copytree, folder, kept)
    await ground.start(ETCD)
    await asyncio.sleep(LOST_SECONDS)
    await ground.kill(*servers, ETCD)
    await scene.recorder.stop()
    await asyncio.to_thread(_put_back, kept, folder)
    await ground.start(ETCD)
    await scene.recorder.start("etcd was restored")
    await ground.start(*servers)
    await ground.kill(*FOLLOWERS)
    await ground.start(*FOLLOWERS)


def _put_back(kept: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    kept.rename(folder)
