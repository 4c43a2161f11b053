"""The one exception that means "the caller can fix this"."""


class UserError(Exception):
    """A mistake of the caller's, told in one line that names the fix.

    Command-line tools print it without a traceback and exit with code 2.
    """


class ModelUnavailable(UserError):
    """The language model's server did not answer; worth retrying, then worth telling."""
