"""Validators that tests install beside the product (`localfed.packages`)."""

from pathlib import Path

RULE = Path(__file__).parent / "rule.py"
