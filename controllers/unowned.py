"""How many workloads under elastic quotas have no owner: limits for users pass them by.

They are older than the webhook that writes owners, of a kind that it does not know, or of somebody who is nobody by an
administrator's word (`docs/identity.md`).
"""

from federation_quota.binding import Binding


class Unowned:
    """Counts them as bindings come and go."""

    def __init__(self) -> None:
        self.count = 0

    def binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        """A binding as it was, and as it is."""
        self.count += _is_unowned(after) - _is_unowned(before)


def _is_unowned(binding: Binding | None) -> bool:
    if binding is None or not binding.stamp.leaf or binding.stamp.owner is not None:
        return False
    return bool(binding.replicas or binding.components)
