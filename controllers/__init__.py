"""The leader-elected deployable: one module per responsibility, wiring only.

What decides anything lives in `federation_quota`; what reviews admission requests lives in `webhook`.
"""
