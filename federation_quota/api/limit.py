"""Limits of users and groups, as they stand on a QuotaTree, a CompositeElasticQuota or an ElasticQuota.

Never here: a kind. Called by the modules of the three kinds.
"""

from typing import Annotated

from pydantic import Field

from federation_quota.api.meta import ListedLimits, Model, atomic_list
from federation_quota.bounds import LONGEST_NAME, MOST_LISTED

# As an identity provider writes them: how they may look is the webhook's to say.
SubjectName = Annotated[str, Field(max_length=1024, min_length=1)]


class UserLimit(Model):
    """What each of some users and groups may have at most of what is below a node, in all member clusters together."""

    limit: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    """What it is called, for people."""
    users: list[SubjectName] = atomic_list(MOST_LISTED)
    """Users, each of whom has the limit alone. '*' is everybody whom nothing before it on this node names, each alone
    as well."""
    groups: list[SubjectName] = atomic_list(MOST_LISTED)
    """Groups, whose members have the limit together. A workload counts for one group: from its quota up to the tree the
    first that is listed, in this order. '*' is all workloads that count for no group listed before it, together; at
    least one group is named before it."""
    max_resources: ListedLimits = Field(default_factory=dict)
    """What they may have, by resource, as spec.hard of a KarmadaQuota; what is not named is not limited."""
    max_applications: Annotated[int, Field(ge=1, le=2**31 - 1, json_schema_extra={"format": "int32"})] | None = None
    """How many workloads with replicas they may have; without it any number."""
