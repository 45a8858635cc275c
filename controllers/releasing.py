"""Releasing what is held: one write that takes our mark off and lets the scheduler at it.

Made under the system's own identity, which alone may do so, and judged by the webhook like any increase: from nothing,
or from what it has in its clusters, to what it asks for. Where the webhook refuses after all, the binding stays held.
Who is released, and when, is `waking`'s: held ones queue with everybody else who waits for the same quota. Under an
elastic tree it is `elastic.trees`'.
"""

from controllers.alarm import Outcome, patched
from federation_quota.binding import Binding
from federation_quota.kube.client import Client
from federation_quota.stamp import HELD_LABEL, PENDING_ANNOTATION


def is_ours(binding: Binding) -> bool:
    """Whether it is held for want of a KarmadaQuota: of what stands in an elastic tree, the tree decides."""
    return binding.is_held and not binding.is_deleting and not binding.stamp.leaf


async def release(client: Client, binding: Binding) -> Outcome:
    """Release it, if it still is as it was looked at."""
    outcome, _ = await released(client, binding)
    return outcome


async def released(client: Client, binding: Binding) -> tuple[Outcome, int]:
    """The same, and the version in which it was stored."""
    metadata: dict[str, object] = {"resourceVersion": str(binding.version), "labels": {HELD_LABEL: None}}
    if binding.pending is not None:
        metadata["annotations"] = {PENDING_ANNOTATION: None}
    body: dict[str, object] = {"metadata": metadata, "spec": {"suspension": {"scheduling": False}}}
    return await patched(client, binding, body)
