"""The whole protocol over the real ledger code, in a simulated world, seed by seed."""
