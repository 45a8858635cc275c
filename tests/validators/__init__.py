"""Validators that tests install beside the product, and what puts them there."""
