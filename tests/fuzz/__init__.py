"""Hostile input: whatever is sent or stored, there is an answer, a clear one, and nobody else notices.

Each test gives the project's own code what nobody would send in good faith, and asks what must hold all the same. They
run within `make test` on a small budget; `FEDQUOTA_FUZZ=20` gives each twenty times as many examples, and `make fuzz`
drives the same tests by coverage (`hack/fuzz.py`).
"""
