"""What can go wrong for a person, said in one line that also says how to go on."""


class FederationError(Exception):
    """A failure that the command line shows as one line; anything else is a bug and shows its traceback."""


class InterruptedByUserError(FederationError):
    """Ctrl-C or a request to terminate: everything started by then has been stopped."""
