"""Flags over variables over the file over defaults; unknown keys are refused by name."""

import pytest

from flotilla.runtime.settings_loader import CONFIG_BYTES_MAX, CONFIG_VARIABLE, load_settings
from flotilla.types.address import Address, Peer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.settings import NodeSettings, OriginKind


@pytest.fixture
def toml(tmp_path):
    def write(content):
        file = tmp_path / "flotilla.toml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def complaint(flags=None, environ=None, file=None):
    with pytest.raises(InvalidArgumentError) as caught:
        load_settings(flags or {}, environ or {}, file)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("flag", "variable", "in_file", "node_id", "origin"),
    [
        ("4", "3", "2", 4, "flag --node-id"),
        (None, "3", "2", 3, "environment FLOTILLA_NODE_ID"),
        (None, "", "2", 2, "file {file}"),
        (None, None, "2", 2, "file {file}"),
        (None, None, None, 1, "default"),
        ("4", None, "'bad'", 4, "flag --node-id"),
    ],
)
def test_the_stronger_source_wins_and_is_remembered(toml, flag, variable, in_file, node_id, origin):
    file = toml("" if in_file is None else f"node_id = {in_file}")
    environ = {} if variable is None else {"FLOTILLA_NODE_ID": variable}
    loaded = load_settings({"node_id": flag}, environ, file)
    assert loaded.settings.node_id == node_id
    assert str(loaded.origins["node_id"]) == origin.format(file=file)
    assert str(loaded.origins["data_dir"]) == "default"


def test_nothing_given_is_the_default():
    assert load_settings({}, {"PATH": "/bin", "flotilla_node_id": "9"}).settings == NodeSettings()


def test_a_file_speaks_toml(toml):
    file = toml(
        """
        listen = "127.0.0.1:9000"
        http_listen = "off"
        auto_create_topics = true
        election_timeout_ms = 2_000
        heartbeat_ms = "500ms"
        journal_file_bytes = "16MiB"

        [peers]
        3 = "127.0.0.1:9301"
        2 = "127.0.0.1:9201"
        """
    )
    settings = load_settings({}, {}, file).settings
    assert settings.listen == Address("127.0.0.1", 9000)
    assert settings.http_listen is None
    assert settings.auto_create_topics is True
    assert (settings.election_timeout_ms, settings.heartbeat_ms) == (2_000, 500)
    assert settings.journal_file_bytes == 16 * 1024 * 1024
    assert settings.peers == (Peer(2, Address("127.0.0.1", 9201)), Peer(3, Address("127.0.0.1", 9301)))


def test_a_list_of_addresses_may_be_an_array(toml):
    file = toml('join = ["localhost:1", "localhost:2"]')
    assert load_settings({}, {}, file).settings.join == (Address("localhost", 1), Address("localhost", 2))


def test_a_variable_names_the_file_and_a_flag_overrides_it(toml, tmp_path):
    environ = {CONFIG_VARIABLE: str(toml("node_id = 2"))}
    loaded = load_settings({}, environ)
    assert loaded.settings.node_id == 2
    assert loaded.origins["node_id"].kind is OriginKind.FILE
    other = tmp_path / "other.toml"
    other.write_text("node_id = 3")
    assert load_settings({}, environ, other).settings.node_id == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("http_lisen = 'a:1'", "unknown key in {file}: 'http_lisen'; did you mean http_listen?"),
        ("http-listen = 'a:1'", "unknown key in {file}: 'http-listen'; did you mean http_listen?"),
        ("[zebra]\nx = 1", "unknown key in {file}: 'zebra'; `flotilla config show` lists all settings"),
        ('"a\\nb" = 1', "unknown key in {file}: 'a\\nb'; `flotilla config show` lists all settings"),
        ("node_id = 0", "node_id = 0 (file {file}): expected a whole number from 1 to 4294967295"),
        ("node_id = true", "node_id = True (file {file}): expected a whole number from 1 to 4294967295"),
        ("listen = 7600", "listen = 7600 (file {file}): expected host:port"),
        ("data_dir = 1979-05-27", "data_dir = datetime.date(1979, 5, 27) (file {file}): expected a path"),
        ("node_id = ", "{file} is not TOML: Invalid value (at end of document)"),
        ("node_id = 1\nnode_id = 2\n", "{file} is not TOML: Cannot overwrite a value (at line 2, column 12)"),
        ("x = " + "[" * 100_000, "{file} is not TOML: "),
        (b"\xff", "{file} is not UTF-8 text: bad byte at 0"),
        (b"#" * (CONFIG_BYTES_MAX + 1), "{file} is larger than 1048576 bytes"),
    ],
    ids=range(13),
)
def test_a_bad_file_is_one_clear_line(toml, content, expected):
    file = toml(content)
    assert complaint(file=file).startswith(expected.format(file=file))


def test_a_file_that_cannot_be_read(tmp_path):
    assert complaint(file=tmp_path / "no.toml").endswith("no.toml: No such file or directory")
    assert complaint(file=tmp_path).endswith("Is a directory")
    assert "No such file" in complaint(environ={CONFIG_VARIABLE: str(tmp_path / "no.toml")})


def test_a_name_that_cannot_be_printed_is_quoted(tmp_path):
    file = tmp_path / "a\nb.toml"
    file.write_text("node_id = 2")
    assert "\n" not in str(load_settings({}, {}, file).origins["node_id"])
    file.write_text("node_id = 0")
    complaint(file=file)


def test_an_unknown_variable_is_refused():
    expected = "unknown environment variable: 'FLOTILLA_HTTP_LISEN'; did you mean FLOTILLA_HTTP_LISTEN?"
    assert complaint(environ={"FLOTILLA_HTTP_LISEN": "a:1"}) == expected
    assert complaint(environ={"FLOTILLA_PORT": "7600"}).startswith("unknown environment variable: 'FLOTILLA_PORT'")


def test_addresses_set_by_kubernetes_are_no_settings():
    environ = {
        "FLOTILLA_SERVICE_HOST": "10.0.0.1",
        "FLOTILLA_SERVICE_PORT": "7600",
        "FLOTILLA_SERVICE_PORT_CLIENTS": "7600",
        "FLOTILLA_PORT": "tcp://10.0.0.1:7600",
        "FLOTILLA_PORT_7600_TCP": "tcp://10.0.0.1:7600",
        "FLOTILLA_PORT_7600_TCP_PROTO": "tcp",
        "FLOTILLA_PORT_7600_TCP_PORT": "7600",
        "FLOTILLA_PORT_7600_TCP_ADDR": "10.0.0.1",
        "FLOTILLA_HEADLESS_SERVICE_HOST": "None",
        "FLOTILLA_HEADLESS_PORT": "tcp://10.0.0.1:7600",
    }
    assert load_settings({}, environ).settings == NodeSettings()


def test_an_unknown_flag_is_refused():
    assert complaint(flags={"node": "1"}) == "unknown flag: 'node'; did you mean node_id?"


def test_rules_hold_over_all_sources(toml):
    file = toml("heartbeat_ms = '900ms'")
    assert complaint({"election_timeout_ms": "1s"}, {}, file) == (
        f"election_timeout_ms = '1s' (flag --election-timeout-ms) and heartbeat_ms = '900ms' (file {file}): "
        "an election timeout is at least two heartbeats long, and 300ms longer than one"
    )
