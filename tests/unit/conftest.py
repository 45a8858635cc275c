"""How the unit tests look for counterexamples."""

from hypothesis import settings

from tests.budget import scaled

# A deadline would be an assertion about time, on machines that do other things as well.
settings.register_profile("federation-quota", deadline=None, max_examples=scaled(15))
settings.load_profile("federation-quota")
