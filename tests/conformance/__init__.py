"""The product against the peers' own numbers (`tests/vectors`, or the folder that FEDQUOTA_VECTORS names)."""
