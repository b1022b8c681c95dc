"""Who runs a command or an App, by variables of the environment that name files with secrets."""

import os
from typing import Final

from flotilla.client.credentials import CredentialsProvider, read_credentials

USER_VARIABLE: Final = "FLOTILLA_USER"
PASSWORD_FILE_VARIABLE: Final = "FLOTILLA_PASSWORD_FILE"
TOKEN_FILE_VARIABLE: Final = "FLOTILLA_TOKEN_FILE"


def environment_credentials() -> CredentialsProvider | None:
    """As the variables of the environment say, which name a user and files; None: they say nothing."""
    user, password_file = os.environ.get(USER_VARIABLE, ""), os.environ.get(PASSWORD_FILE_VARIABLE, "")
    return read_credentials(user, password_file, os.environ.get(TOKEN_FILE_VARIABLE, ""), None)
