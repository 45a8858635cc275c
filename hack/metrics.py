"""Write `docs/metrics.md` from the definitions of the metrics, or with `--check` say that it differs."""

import sys
from collections.abc import Iterable
from pathlib import Path

from federation_quota import metrics
from federation_quota.metrics import Definition

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
HEADER = """\
<!-- Generated from federation_quota/metrics.py by hack/metrics.py: change it there. -->
# Metrics and health

Both deployables listen on `--metrics-listen` (`0.0.0.0:8080`):

| path | answers |
|---|---|
| `/metrics` | what stands below, for Prometheus, and what its client library tells of every process |
| `/livez` | 200, or 503 where nothing but a restart helps: the same work has been under way for three minutes |
| `/readyz` | 200 once bindings and quotas are known and the API server trusts what is served; else 503 |

A check that fails is named in the body, one line each: `certificate: no certificate is served that every hook trusts`.
The webhook answers `/livez` and `/readyz` on its own port, too.

Labels are bounded: no metric is labelled with a binding or a workload. Only `federation_quota_used` and
`federation_quota_hard` stand under a quota's own name, and go when it does; `federation_quota_usage_used` and
`federation_quota_usage_limit` under the names of users and groups, those nearest to their limits first and a bounded
number of them, and only where tokens are asked for ([below](#who-may-read-them)). Counts over all quotas come from the
leading replica of the controllers alone, so that sums are right.

What users and groups use is also told in the shape of YuniKorn's design document, by the controllers, where tokens are
asked for: `GET /ws/v1/partition/TREE/usage/users` and `groups`, `user/NAME` and `group/NAME`
([identity.md](identity.md#what-they-use)).

## Who may read them

With `--metrics-authorization=token` the listener speaks TLS, and `/metrics` wants a bearer token of the host cluster's
whose user may `get` the path. `/livez` and `/readyz` want none. The certificate is one of the system's own authority
for `--metrics-server-names`, or is read from `--metrics-certificate` and `--metrics-key`, again whenever they change.

```yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: federation-quota-metrics}
rules:
  - nonResourceURLs: [/metrics]
    verbs: [get]
  - nonResourceURLs: [/ws/v1/partition/*] # or those of one tree: /ws/v1/partition/lab/usage/*
    verbs: [get]
```

The process itself must be allowed to create `tokenreviews.authentication.k8s.io` and
`subjectaccessreviews.authorization.k8s.io` there (the ClusterRole `system:auth-delegator`). Without a token that is
known the answer is 401, without the right 403, and 503 where the host's API server cannot be asked. Answers are kept
for ten seconds.

With `--metrics-authorization=none`, the default, whoever reaches the port reads `/metrics`, and is told of nobody: what
names people, `federation_quota_usage_used` and `federation_quota_usage_limit` with `federation_quota_usage_untold`, is
not there. The chart's alerts and its dashboard do without it; rules and panels of your own about these need controllers
that ask for tokens.
"""
TABLE = """
## All of them

| metric | type | labels | of | meaning |
|---|---|---|---|---|
"""
REMEDIES = """
## What to do when …
"""


def render(definitions: Iterable[Definition]) -> str:
    """The page."""
    ordered = sorted(definitions, key=lambda one: one.name)
    rows = (
        f"| `{one.name}` | {one.type} | {', '.join(f'`{label}`' for label in one.labels)} | {one.served_by} "
        f"| {one.help} |\n"
        for one in ordered
    )
    remedies = (f"\n**`{one.name}`**: {one.remedy}\n" for one in ordered if one.remedy)
    return HEADER + TABLE + "".join(rows) + REMEDIES + "".join(remedies)


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    if arguments not in ([], ["--check"]):
        print("usage: hack/metrics.py [--check]", file=sys.stderr)
        return 2
    wanted = render(metrics.definitions())
    if arguments:
        if PAGE.exists() and PAGE.read_text() == wanted:
            return 0
        print("docs/metrics.md is not what federation_quota/metrics.py says: run `make metrics`", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
