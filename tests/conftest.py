"""What every test may ask for."""

pytest_plugins = ["localfed.fixtures"]
