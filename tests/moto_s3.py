"""Serve moto's S3 alone at a port: `python -m tests.moto_s3 9000`.

moto's own server looks for the service of each request among all that it knows, by listing a folder,
and writes a line of log: a third of its work, and half of that of tests that wait for it.
"""

import sys

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class Quiet(MotoRequestHandler):
    """Tells nothing of requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        create_backend_app("s3"),
        threaded=True,
        request_handler=Quiet,
    )
