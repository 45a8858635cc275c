"""A real Karmada federation on one machine, as plain processes on loopback.

Here lives everything behind `hack/federation`, which is also the fixture library of the test suite and the stage of
the demo: getting the programs (`toolchain`, `programs`), running them so that none is ever left behind (`guard`,
`process`), and putting them together (`controlplane`, `karmada`, `nodes`, `federation`). Nothing of the product lives
here, and the product never imports it.
"""
