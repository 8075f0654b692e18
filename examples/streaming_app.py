r"""An app behind HTTP that streams: it answers in capitals, one word at a time.

Start it, tell Keyrun where it is, and watch the words come:

    python3 examples/streaming_app.py
    ./keyrun apps create speak --backend http --url http://127.0.0.1:9003/run
    curl -N http://127.0.0.1:8080/api/apps/speak/stream \
      -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" \
      -d '{"text":"hello, how are you?"}'

A run of the same app, with `/run` in place of `/stream`, gives the whole text.
"""

import json
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def speak(text):
    """Your app goes here."""
    for word in re.findall(r"\s*\S+\s*", text.upper()):
        yield word
        time.sleep(0.1)


class App(BaseHTTPRequestHandler):
    # Keyrun keeps its connections open and uses them for the next runs.
    protocol_version = "HTTP/1.1"
    # Sends each word at once.
    disable_nagle_algorithm = True

    def do_POST(self):
        if self.path != "/run":
            self.send_error(404)
            return
        try:
            # Keyrun sends {"runId", "teamId", "appId", "keyId", "text"}.
            run = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            pieces = speak(run["text"])
        except (TypeError, ValueError, KeyError):
            self.send_error(400)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # If the app raises, the last chunk is not sent, and the connection is closed. That tells
        # Keyrun that the text is not whole.
        self.close_connection = True
        try:
            for text in pieces:
                self.write_chunk(f"data: {json.dumps({'text': text})}\n\n")
            self.write_chunk("")
            self.close_connection = False
        except ConnectionError:
            # The caller has left.
            pass

    def write_chunk(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_request(self, code="-", size="-"):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 9003))), App)
    print(f"The app listens on http://127.0.0.1:{server.server_port}/run", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
