"""How `.venv` is made: uv gets the package indexes that pip is configured with."""

import environment


def test_uv_uses_the_indexes_and_certificates_that_pip_is_configured_with() -> None:
    pip = {
        "index-url": "https://index.example/simple",
        "extra-index-url": "https://one.example\nhttps://two.example",
        "find-links": "/wheels /more",
        "cert": "/ca.crt",
        "disable-pip-version-check": "1",
    }
    assert environment.uv_environment(pip, {"PATH": "/bin"}) == {
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://one.example https://two.example",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/ca.crt",
        "PATH": "/bin",
    }


def test_what_the_user_set_for_uv_overrules_what_pip_is_configured_with() -> None:
    pip = {"index-url": "https://pip.example/simple"}
    given = environment.uv_environment(pip, {"UV_DEFAULT_INDEX": "https://uv.example/simple"})
    assert given["UV_DEFAULT_INDEX"] == "https://uv.example/simple"
