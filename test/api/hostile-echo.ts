import { request as httpRequest } from "node:http";
import type { ClientHttp2Session } from "node:http2";
import { buffer } from "node:stream/consumers";
import type { ListenerName } from "#src/auth/policy.ts";
import type { Ask } from "../harness/exchange.ts";

/** The types of JSON bodies: only JSON has names and values that a refusal could repeat. */
const codecs = {
  REST: "application/json",
  Connect: "application/json",
  "Connect stream": "application/connect+json",
  gRPC: "application/grpc+json",
  "gRPC-Web": "application/grpc-web+json",
} as const;

type Codec = keyof typeof codecs;

/** A place of a request in which a hostile caller writes a long text. */
export interface Echo {
  readonly name: string;
  readonly listener: ListenerName;
  /** Whether the text is in the head, where HTTP/2 and HTTP/1.1 allow 16 KiB. */
  readonly isInHead: boolean;
  /** Whether HTTP/1.1 can carry it. */
  readonly isForHttp1: boolean;
  ask(text: string, credentials: { readonly key: string; readonly token: string }): Ask;
}

const bodies: readonly {
  readonly what: string;
  readonly rpc: string;
  readonly json: (text: string) => unknown;
}[] = [
  { what: "an unknown field", rpc: "RunService/RunApp", json: (text) => ({ [text]: 1 }) },
  { what: "an unknown field", rpc: "KeyService/WatchKeys", json: (text) => ({ [text]: 1 }) },
  { what: "an app id", rpc: "RunService/RunApp", json: (text) => ({ appId: text, text: "x" }) },
  {
    what: "a field of a nested message",
    rpc: "AppService/CreateApp",
    json: (text) => ({ app: { [text]: 1 } }),
  },
  {
    what: "an enum's value",
    rpc: "TeamService/CreateTeam",
    json: (text) => ({ team: { id: "a", plan: text } }),
  },
  { what: "a number", rpc: "KeyService/ListKeys", json: (text) => ({ teamId: "demo", pageSize: text }) },
  { what: "a duration", rpc: "AppService/CreateApp", json: (text) => ({ app: { id: "a", timeout: text } }) },
  { what: "a label", rpc: "KeyService/CreateKey", json: (text) => ({ teamId: "demo", label: text }) },
  {
    what: "a request id",
    rpc: "KeyService/CreateKey",
    json: (text) => ({ teamId: "demo", requestId: text }),
  },
  { what: "a key id", rpc: "KeyService/RevokeKey", json: (text) => ({ teamId: "demo", keyId: text }) },
  { what: "a team id", rpc: "TeamService/GetTeam", json: (text) => ({ teamId: text }) },
  { what: "a team id of a change", rpc: "TeamService/UpdateTeam", json: (id) => ({ team: { id } }) },
  { what: "an app id of a change", rpc: "AppService/DeleteApp", json: (appId) => ({ appId }) },
  {
    what: "an app's team",
    rpc: "AppService/CreateApp",
    json: (text) => ({ app: { id: "a", backend: { echo: {} }, teamIds: [text] } }),
  },
  {
    what: "an app's URL",
    rpc: "AppService/CreateApp",
    json: (url) => ({ app: { id: "a", backend: { http: { url } } } }),
  },
  { what: "an e-mail", rpc: "TeamService/AddMember", json: (email) => ({ teamId: "demo", email }) },
  { what: "a page token", rpc: "TeamService/ListTeams", json: (pageToken) => ({ pageToken }) },
];

const headers = [
  ...["content-type", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout", "x-request-id", "accept"],
  ...["content-encoding", "connect-content-encoding", "connect-timeout-ms", "connect-protocol-version"],
];

const types: Readonly<Record<string, string>> = {
  "an application/grpc codec": "application/grpc+",
  "an application/grpc-web codec": "application/grpc-web+",
  "an application/connect codec": "application/connect+",
  "parameters of JSON": "application/json;",
};

const runPath = "/keyrun.v1.RunService/RunApp";

export const echoes: readonly Echo[] = [
  ...bodies.flatMap(({ what, rpc, json }) =>
    codecsOf(rpc).map((codec): Echo => {
      const isRun = rpc === "RunService/RunApp";
      return {
        name: `${what} of ${rpc} over ${codec}`,
        listener: codec === "REST" ? "public" : "internal",
        isInHead: false,
        isForHttp1: true,
        ask: (text, { key, token }) => ({
          method: "POST",
          path: codec === "REST" ? "/api/apps/echo/run" : `/keyrun.v1.${rpc}`,
          headers: { ...headersOf(codec), authorization: `Bearer ${isRun ? key : token}` },
          body: bodyOf(codec, json(text)),
        }),
      };
    }),
  ),
  ...(["Connect", "gRPC", "gRPC-Web"] as const).flatMap((codec) =>
    headers.map(
      (header): Echo =>
        inHead(`the header ${header} over ${codec}`, (text, { key }) => ({
          method: "POST",
          path: runPath,
          headers: { ...headersOf(codec), authorization: `Bearer ${key}`, [header]: text },
          body: bodyOf(codec, { appId: "echo" }, 1),
        })),
    ),
  ),
  ...Object.entries(types).flatMap(([what, type]) =>
    [runPath, "/keyrun.v1.RunService/Walk"].map((path) =>
      inHead(`${what} on ${path}`, (text) => ({
        method: "POST",
        path,
        headers: { "content-type": `${type}${text}`, "connect-protocol-version": "1" },
        body: "{}",
      })),
    ),
  ),
  ...(["REST", "Connect", "gRPC", "gRPC-Web"] as const).flatMap((codec) => [
    inHead(`an unknown method over ${codec}`, (text) => ({
      method: "POST",
      path: `/keyrun.v1.RunService/${encodeURIComponent(text)}`.slice(0, 14_000),
      headers: headersOf(codec),
      body: "{}",
    })),
    {
      ...inHead(`a verb over ${codec}`, (text) => ({
        method: text.replace(/[^A-Z]/gi, "X").toUpperCase(),
        path: codec === "REST" ? "/api/apps/echo/run" : runPath,
        headers: headersOf(codec),
      })),
      isForHttp1: false,
    },
  ]),
  inHead("an app id in the path", (text, { key }) => ({
    method: "POST",
    path: `/api/apps/${encodeURIComponent(text).slice(0, 13_998).replace(/%.?$/, "")}/run`,
    headers: { ...headersOf("REST"), authorization: `Bearer ${key}` },
    body: '{"text":"x"}',
  })),
];

function codecsOf(rpc: string): readonly Codec[] {
  if (rpc === "KeyService/WatchKeys") return ["Connect stream", "gRPC", "gRPC-Web"];
  const unary: Codec[] = ["Connect", "gRPC", "gRPC-Web"];
  return rpc === "RunService/RunApp" ? ["REST", ...unary] : unary;
}

function headersOf(codec: Codec): Record<string, string> {
  return { "content-type": codecs[codec], "connect-protocol-version": "1", te: "trailers" };
}

function bodyOf(codec: Codec, json: unknown, flags = 0): Buffer {
  const message = Buffer.from(JSON.stringify(json));
  if (codec === "REST" || codec === "Connect") return message;
  const prefix = Buffer.alloc(5);
  prefix[0] = flags;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function inHead(name: string, ask: Echo["ask"]): Echo {
  return { name, listener: "public", isInHead: true, isForHttp1: true, ask };
}

/** Sends the request and returns the answer's size in bytes: head, body and trailers. */
export async function sizeOverHttp1(url: string, ask: Ask): Promise<number> {
  const request = httpRequest(url, { ...ask, agent: false, maxHeaderSize: 10_000_000 });
  const answered = new Promise<import("node:http").IncomingMessage>((resolve, reject) =>
    request.once("response", resolve).once("error", reject),
  );
  request.end(ask.body);
  const response = await answered;
  const body = await buffer(response);
  const fields = [...response.rawHeaders, ...response.rawTrailers];
  return fields.reduce((size, text) => size + text.length + 2, body.length);
}

/**
 * The same over a shared HTTP/2 session. Headers count as RFC 9113 counts them (section 6.5.2),
 * which is how clients bound them.
 */
export function sizeOverHttp2(
  session: ClientHttp2Session,
  { method, path, headers, body }: Ask,
): Promise<number> {
  const stream = session.request({ ":method": method, ":path": path, ...headers });
  let size = 0;
  let isAnswered = false;
  const count = (_: object, __: number, raw: readonly string[]) => {
    isAnswered = true;
    size = raw.reduce((sum, text) => sum + text.length + 16, size);
  };
  stream.on("response", count as never);
  stream.on("trailers", count as never);
  stream.on("data", (chunk: Buffer) => {
    size += chunk.length;
  });
  return new Promise((resolve, reject) => {
    stream.on("error", reject);
    stream.on("close", () =>
      isAnswered ? resolve(size) : reject(new Error(`No answer: the stream closed with ${stream.rstCode}.`)),
    );
    stream.end(body);
  });
}
