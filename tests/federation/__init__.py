"""The product on the real federation."""
