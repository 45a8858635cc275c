"""Whether every address of each Service answers its /readyz; run by `helm test`."""

import http.client
import socket
import ssl
import sys
from urllib.parse import urlsplit

problems = []
for url in sys.argv[1:]:
    parts = urlsplit(url)
    for *_, address in socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM):
        # Pods serve health under certificates of their own making: reaching them is the point here.
        context = ssl._create_unverified_context() if parts.scheme == "https" else None
        connection = (
            http.client.HTTPSConnection(*address[:2], timeout=5, context=context)
            if context
            else http.client.HTTPConnection(*address[:2], timeout=5)
        )
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        said = answer.read(500).decode(errors="replace").strip()
        print(url, address[0], answer.status, said)
        if answer.status != 200:
            problems.append(f"{url} at {address[0]}: {said}")
sys.exit("; ".join(problems) or 0)
