"""Validators of one's own: the public interface that a company's rule is written against.

A validator is a class that an installed package names among the entry points `federation_quota.validators`. It is off
until an administrator switches it on by that name. It is asked about every increase that is about to be admitted, one
request of a tenant at a time in the whole federation, and says yes, or not now (`docs/validators.md`).

A validator counts nothing itself: it is told what the tenant uses, with what was allowed and is not stored yet. So it
has nothing to take back when a quota refuses what it allowed, when a request dies, or when a replica does.

Pure: what is here decides and describes. Finding, starting and asking validators is the webhook's.
"""

from federation_quota.validators.decision import ALLOWED, Decision, allow, refuse
from federation_quota.validators.request import Request, Tenant
from federation_quota.validators.validator import Context, Validator

__all__ = ["ALLOWED", "Context", "Decision", "Request", "Tenant", "Validator", "allow", "refuse"]
