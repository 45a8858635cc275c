"""The admission deployable: one module per reviewed kind, wiring only.

What decides anything lives in `federation_quota`; what acts on its own, without being asked, lives in `controllers`.
"""
