"""The names under which the installed system is known on its API servers: one place, so that its parts find each other.

Names of labels and annotations on users' objects are `stamp`'s.
"""

from typing import Final

FIELD_MANAGER: Final = "federation-quota"
PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
SYSTEM: Final = "federation-quota"
PARTS: Final = {PART_OF: SYSTEM}

WEBHOOK: Final = "webhook"
CONTROLLERS: Final = "controllers"

REPLICAS: Final = {PART_OF: SYSTEM, COMPONENT: WEBHOOK}
"""The labels of the Leases by which webhook replicas show that they are there."""

TENANTS: Final = {PART_OF: SYSTEM, COMPONENT: "tenant"}
"""The labels of the Leases that say which replica judges the requests of a tenant."""

AUTHORITY_SECRET: Final = "federation-quota-authority"  # noqa: S105 - its name, not its content
LEADER_LEASE: Final = "federation-quota-controllers"
CHANGES_LEASE: Final = "federation-quota-changes"
"""What the replicas of the webhook let through of quotas and trees, and have not seen stored yet."""

VALIDATING: Final = "federation-quota-validating"
MUTATING: Final = "federation-quota-mutating"
ADVISING: Final = "federation-quota-advising"


def selector(labels: dict[str, str]) -> str:
    """A label selector for exactly these."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
