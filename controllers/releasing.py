"""Releasing what is held: one write that takes our mark off and lets the scheduler at it.

Made under the system's own identity, which alone may do so, and judged by the webhook like any increase: from nothing,
or from what it has in its clusters, to what it asks for. Where the webhook refuses after all, the binding stays held.
Who is released, and when, is `waking`'s: held ones queue with everybody else who waits for the same quota.
"""

from controllers.alarm import Outcome, patch_binding
from federation_quota.binding import Binding
from federation_quota.kube.client import Client
from federation_quota.stamp import HELD_LABEL


def is_ours(binding: Binding) -> bool:
    """Whether it is held for want of a KarmadaQuota: of what stands in an elastic tree, the tree decides."""
    return binding.is_held and not binding.is_deleting and not binding.stamp.leaf


async def release(client: Client, binding: Binding) -> Outcome:
    """Release it, if it still is as it was looked at."""
    body: dict[str, object] = {
        "metadata": {"resourceVersion": str(binding.version), "labels": {HELD_LABEL: None}},
        "spec": {"suspension": {"scheduling": False}},
    }
    return await patch_binding(client, binding, body)
