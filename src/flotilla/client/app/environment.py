"""Who runs a command or an App, by variables of the environment that name files with secrets."""

import os
from typing import Final, NamedTuple

from flotilla.client.credentials import CredentialsProvider, read_credentials

USER_VARIABLE: Final = "FLOTILLA_USER"
PASSWORD_FILE_VARIABLE: Final = "FLOTILLA_PASSWORD_FILE"
TOKEN_FILE_VARIABLE: Final = "FLOTILLA_TOKEN_FILE"


#: Those that Spark passes on to executors: they name files, and hold no secrets.
VARIABLES: Final = (USER_VARIABLE, PASSWORD_FILE_VARIABLE, TOKEN_FILE_VARIABLE)


class LogInFiles(NamedTuple):
    """Who a client is: a user and where its password is, or where its token is. No secrets: it may stand in a plan."""

    user: str = ""
    password_file: str = ""
    token_file: str = ""

    def credentials(self) -> CredentialsProvider | None:
        """Raises InvalidArgumentError."""
        return read_credentials(*self, None)


def environment_log_in() -> LogInFiles:
    return LogInFiles(*[os.environ.get(name, "") for name in VARIABLES])


def environment_credentials() -> CredentialsProvider | None:
    """As the variables of the environment say, which name a user and files; None: they say nothing."""
    return environment_log_in().credentials()
