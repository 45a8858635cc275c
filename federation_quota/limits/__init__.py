"""Limits of users and groups: how much each may have below any node of a tree, and how many applications.

Limits stand on the nodes of elastic trees, the root included. Below a node a named user or group has the limit that
names it, every other user a private one by the wildcard, and all other groups one pool together. A binding is judged
from its leaf to the root, for its owner and for the one group that it counts for.

Values and decisions alone:

- `limit`: what stands on a node. `validation`: what may stand there. `hierarchy`: what may stand below what.
- `scheme`: a whole tree's limits, and who has which of them where.
- `subject`: a user or a group of a tree, which is what has an account. `lens`: what such an account sees of a claim.
- `registry`: the schemes of all trees, as quotas come and go.
- `usage`: accounts of subjects as stored objects, and stored objects as accounts.
- `headroom`, `survey`: what is left for a binding, and who uses what of a tree, for those who ask.

Nothing is counted here: an account is the ledger's, like any other, and what it has used is worked out from the
bindings. So a limit that appears counts what runs already, and one that goes leaves nothing behind.
"""
