"""Runs an app by a Python client that repeats by itself.

Its argument is JSON: the URL of the run, the API key, the client's name, an
Idempotency-Key and a text. It prints the answer.
"""

import json
import sys

import httpx
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

order = json.loads(sys.argv[1])
client = order["client"]
headers = {
    "authorization": f"Bearer {order['value']}",
    "content-type": "application/json",
    "idempotency-key": order["key"],
}
body = json.dumps({"text": order["text"]})
# A POST is repeated only where the caller says that it is safe, as it is with a key.
retries = Retry(total=5, allowed_methods=None, backoff_factor=0.01)


def by_requests():
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=retries))
    return session.post(order["url"], data=body, headers=headers, timeout=20).json()


def by_urllib3():
    pool = urllib3.PoolManager(retries=retries)
    answer = pool.request("POST", order["url"], body=body, headers=headers, timeout=20)
    return json.loads(answer.data)


def by_httpx():
    # Its own repeats are for connections alone, so people write this loop.
    with httpx.Client(timeout=20) as session:
        for _ in range(5):
            try:
                return session.post(order["url"], content=body, headers=headers).json()
            except httpx.TransportError:
                pass
    raise SystemExit("no answer")


clients = {"requests": by_requests, "urllib3": by_urllib3, "httpx": by_httpx}
print(json.dumps(clients[client]()))
