"""One stream as Python's clients read it: httpx-sse, httpx and requests by lines, and Debian's grpcio.

Reads one JSON object from standard input: url, target, key, text, client. Prints what was told as one JSON object.
"""

import json
import sys


def main():
    asked = json.load(sys.stdin)
    print(json.dumps(readers[asked["client"]](asked)))


def by_events(asked):
    import httpx
    import httpx_sse

    with httpx.Client() as client:
        with httpx_sse.connect_sse(client, "POST", asked["url"], headers=headers(asked), json=body(asked)) as source:
            return [[event.event, event.json()] for event in source.iter_sse()]


def by_lines(asked):
    import httpx

    sent = {**headers(asked), "Accept": "application/x-ndjson"}
    with httpx.stream("POST", asked["url"], headers=sent, json=body(asked)) as answer:
        return [json.loads(line) for line in answer.iter_lines()]


def by_lines_of_events(asked):
    import httpx

    with httpx.stream("POST", asked["url"], headers=headers(asked), json=body(asked)) as answer:
        return data_in(answer.iter_lines())


def by_requests(asked):
    import requests

    sent = {**headers(asked), "Accept": "application/jsonl"}
    with requests.post(asked["url"], headers=sent, json=body(asked), stream=True) as answer:
        return [json.loads(line) for line in answer.iter_lines(decode_unicode=True)]


def by_requests_of_events(asked):
    import requests

    with requests.post(asked["url"], headers=headers(asked), json=body(asked), stream=True) as answer:
        return data_in(answer.iter_lines(decode_unicode=True))


def data_in(lines):
    """What the events hold, as a program reads it that knows only their lines."""
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def by_grpc(asked):
    import grpc

    with grpc.insecure_channel(asked["target"]) as channel:
        stream = channel.unary_stream("/keyrun.v1.RunService/StreamApp")
        request = field(1, b"talk") + field(2, asked["text"].encode())
        metadata = [("authorization", f"Bearer {asked['key']}")]
        call = stream(request, metadata=metadata, timeout=30)
        messages = [message.hex() for message in call]
        return {"messages": messages, "code": call.code().name}


def field(number, value):
    """A string field of a message; each is shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def headers(asked):
    return {"Authorization": f"Bearer {asked['key']}"}


def body(asked):
    return {"text": asked["text"]}


readers = {
    "sse": by_events,
    "lines": by_lines,
    "lines of events": by_lines_of_events,
    "requests": by_requests,
    "requests of events": by_requests_of_events,
    "grpc": by_grpc,
}


main()
