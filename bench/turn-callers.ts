// How the requests of `turn-cases.ts` are sent: each resolves with the status of its answer.
import { once } from "node:events";
import { request as requestHttp1 } from "node:http";
import type { ClientHttp2Session } from "node:http2";

export interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly method?: string;
}

export function sendHttp1(
  port: number,
  path: string,
  { method = "GET", headers = {}, body }: Sent,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = requestHttp1(
      {
        port,
        path,
        method,
        headers: { ...headers, ...(body && { "content-length": body.length }) },
        agent: false,
      },
      (answer) => {
        answer
          .resume()
          .on("end", () => resolve(String(answer.statusCode)))
          .on("error", reject);
      },
    );
    asked.on("error", reject).end(body);
  });
}

/** Sends all of a run but its last byte. Returns the function that sends that, too. */
export async function openHttp1(port: number, body: Buffer, headers: Readonly<Record<string, string>>) {
  const asked = requestHttp1({
    port,
    path: "/api/apps/echo/run",
    method: "POST",
    headers: { ...headers, "content-type": "application/json", "content-length": body.length },
    agent: false,
  });
  const answered = once(asked, "response");
  answered.catch(() => {});
  asked.write(body.subarray(0, -1));
  return async () => {
    asked.end(body.subarray(-1));
    const [answer] = await answered;
    answer.resume();
    await once(answer, "end");
    return String(answer.statusCode);
  };
}

export function sendGrpc(
  session: ClientHttp2Session,
  path: string,
  { body, headers }: Sent,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    let status = "";
    const read = (received: Record<string, unknown>) => {
      status = String(received["grpc-status"] ?? status);
    };
    stream.on("response", read).on("trailers", read).on("error", reject);
    stream.on("close", () => resolve(`status ${status}`));
    stream.resume().end(body);
  });
}
