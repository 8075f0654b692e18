"""Runs an app in the background by a Python client, and looks for its end.

Its argument is JSON: the URL of Keyrun, an API key, the client's name, a text,
and whether it waits (`wait`) or looks as often as `Retry-After` says. It prints
how many looks it took, and the run.
"""

import json
import sys
import time

import httpx
import requests
import urllib3

order = json.loads(sys.argv[1])
headers = {"authorization": f"Bearer {order['value']}", "content-type": "application/json"}
pool = urllib3.PoolManager()


def by_urllib3(method, url, **options):
    answer = pool.request(method, url, body=options.get("data"), headers=options["headers"])
    return answer.status, answer.headers, json.loads(answer.data)


def by_requests(method, url, **options):
    answer = requests.request(method, url, timeout=60, **options)
    return answer.status_code, answer.headers, answer.json()


def by_httpx(method, url, data=None, **options):
    answer = httpx.request(method, url, timeout=60, content=data, **options)
    return answer.status_code, answer.headers, answer.json()


ask = {"requests": by_requests, "urllib3": by_urllib3, "httpx": by_httpx}[order["client"]]
preferred = {**headers, "prefer": "respond-async"}
body = json.dumps({"text": order["text"]})
status, answered, run = ask("POST", f"{order['url']}/api/apps/counted/run", data=body, headers=preferred)
assert status == 202, (status, run)
looks = 0
while run["state"] == "RUN_STATE_RUNNING":
    looks += 1
    if order["way"] == "wait":
        waiting = {**headers, "prefer": "wait=30"}
    else:
        waiting = headers
        time.sleep(int(answered["retry-after"]))
    status, _, run = ask("GET", order["url"] + answered["location"], headers=waiting)
    assert status == 200, (status, run)
print(json.dumps({"looks": looks, "run": run}))
