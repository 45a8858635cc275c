"""Domains: the parts of the ledger that know nothing of each other, each with accounts and bindings of its own.

Every account is in one, and in the ledger a domain goes by the name `namespace`, which for KarmadaQuotas is what it is.
An elastic leaf is the one account of a domain of its own, because its bindings may be of many namespaces; there they
are called `namespace/name`. A binding is charged in its namespace and, where it is under a leaf, in the leaf's domain
too: in each with what that costs there. So is the account of a user or of a group; which of them a binding is charged
to is not in the binding alone but follows from the limits, too (`limits.scheme`), and with the same claim as in its
namespace.
"""

from typing import Final

from federation_quota.binding import ObjectKey

_LEAF: Final = "leaf:"  # no namespace has a colon in its name
_USAGE: Final = "usage:"


def of_leaf(leaf: str) -> str:
    """The domain of a leaf: `namespace/name` of an ElasticQuota, the bare name of a CompositeElasticQuota."""
    return _LEAF + leaf


def is_leaf(domain: str) -> bool:
    """Whether it is a leaf's, and no namespace."""
    return domain.startswith(_LEAF)


def leaf(domain: str) -> str:
    """The leaf whose domain it is; empty for a namespace."""
    return domain.removeprefix(_LEAF) if is_leaf(domain) else ""


def of_usage(account: str) -> str:
    """The domain of a user's or group's account."""
    return _USAGE + account


def is_usage(domain: str) -> bool:
    """Whether it is a user's or group's."""
    return domain.startswith(_USAGE)


def usage(domain: str) -> str:
    """The account whose domain it is; empty for all other domains."""
    return domain.removeprefix(_USAGE) if is_usage(domain) else ""


def is_namespace(domain: str) -> bool:
    """Whether it is a namespace's."""
    return ":" not in domain


def name_in(domain: str, binding: ObjectKey) -> str:
    """What a binding is called there."""
    return binding.name if is_namespace(domain) else str(binding)


def binding_in(domain: str, name: str) -> ObjectKey:
    """The binding that is called so there."""
    if is_namespace(domain):
        return ObjectKey(domain, name)
    namespace, _, own = name.partition("/")
    return ObjectKey(namespace, own)
