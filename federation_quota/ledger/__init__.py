"""The ledger: who has how much, and whether one more fits. Never over-admit, never leak, never deny falsely.

Pure and synchronous: values in, values out. Nothing here reads a clock, draws a random number or talks to a server;
whoever calls brings those in. The protocol, in one breath:

- `View`: each component's own watch of all bindings, reduced to what they cost.
- `Account`: a limit, and what views cannot know yet: `Reservation`s, and the version that a view must have reached.
- `judging`: does an ask fit, given account and view? Every increase that is admitted becomes a reservation, written to
  the account under its resourceVersion before the answer is sent.
- `settling`: a reservation ends when a view has seen the binding past it, or when a live look after the expiry says how
  it went; whoever ends one raises the version that everybody else must have seen.
- `joining`: a new account counts nothing falsely, because it is active only once every live replica has joined it and
  brought along what it admitted before.

Nothing is ever added as a delta: the API server may ask several times for one request, with stale objects, and may drop
the request afterwards. Over-counting for a while is safe; under-counting is a bug.
"""
