"""Elastic trees: guaranteed, borrowed, given back.

Quotas form trees. What bindings ask for climbs from the leaves; what each quota may use at the moment, its *runtime*,
comes down again: its min first, and of what is left a share by weight. What one leaves idle others borrow, and give
back when it is wanted.

Values and decisions alone, in three layers:

- `unit`, `node`, `tree`, `capacity`, `association`: what there is, and what belongs where.
- `division`, `shape`, `column`, `runtime`, `fairshare`: who may use how much.
- `occupant`, `release`, `preemption`, `reclaim`, `labelling`, `publication`, `ask`, `admission`, `grant`: what follows
  for bindings and accounts. `situation` is what is watched, `outlook` what is to be done in one leaf; `plan` puts it
  together, with the `sums` of what is below each quota: what is to be written next; and `prospect`, what would follow.

`running` is beside all that: what the members' pods use, which decides nothing.

`quota` and `forest` make the values from stored objects, `status` writes how a quota stands, `leaf` makes accounts of
leaves and statuses of accounts, `validation`, `topology` and `delegation` say what may be stored and by whom,
`underway` what is about to be, `koordinator` and `nos` translate the manifests of others. Never here: I/O, clocks, how
an account admits (the ledger).
"""
