// A process that runs an app over HTTP/2 with a large text, and reads no answer: the window of each
// stream is zero. Arguments: port, sessions, runs of a session, characters of the text, app, key.
import { type ClientHttp2Session, connect } from "node:http2";
import { countStatus, noLoad, reportRegularly } from "./report.ts";

const [port, sessions, runs, characters, app, key] = process.argv.slice(2);
const load = noLoad();
const body = Buffer.from(JSON.stringify({ text: "x".repeat(Number(characters)) }));
const headers = {
  ":method": "POST",
  ":path": `/api/apps/${app}/run`,
  authorization: `Bearer ${key}`,
  "content-type": "application/json",
};

for (let at = 0; at < Number(sessions); at += 1) attack();
reportRegularly(load);

function attack(): void {
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
  session
    .on("error", () => undefined)
    .on("close", () => {
      load.closed += 1;
    });
  session.once("remoteSettings", () => {
    load.connections += 1;
    run(session, Number(runs));
  });
}

/** Sends runs one after the other: each when the head of the answer before it has arrived. */
function run(session: ClientHttp2Session, left: number): void {
  if (left === 0 || session.destroyed) return;
  const stream = session.request(headers);
  stream
    .on("error", (error) => countStatus(load, error.message))
    .on("response", (head) => {
      countStatus(load, String(head[":status"]));
      run(session, left - 1);
    });
  stream.end(body);
  load.requests += 1;
  load.bytesSent += body.length;
}
