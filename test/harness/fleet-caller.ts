import { Agent, request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import type { manage } from "./keyrun.ts";

/** What came of one use of a key at one instance. */
export type Outcome = "accepted" | "revoked" | "limited" | "unavailable" | "lost" | "other";

export interface Answer {
  readonly outcome: Outcome;
  /** Headers and trailers, with small names. Empty if no answer arrived. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The ways in which these tests present a key. They cost little processor time. */
export const fleetEntries = ["rest", "rest-h2", "grpc", "verify"] as const;
/** The same, and the guard of the app `guarded`, which the test makes by `makeGuarded`. */
export const fleetEntriesAndGuard = [...fleetEntries, "guard"] as const;
/** Every way. */
export const everyEntry = [...fleetEntriesAndGuard, "connect", "connect-h2", "grpc-web"] as const;
export type FleetEntry = (typeof everyEntry)[number];

/** Where an instance, or a balancer in front of several, listens. */
export interface FleetAddress {
  readonly publicUrl: string;
  /** Where HTTP/2 goes, if not to `publicUrl`. */
  readonly publicH2Url?: string;
  readonly internalUrl: string;
  readonly serviceToken: string;
}

/** Uses keys at one address, on connections that are kept and opened again when they are lost. */
export interface FleetCaller {
  /** Never rejects. The request is written at once if the entry's connection is open. */
  use(entry: FleetEntry, value: string): Promise<Answer>;
  /** A call of an internal method with JSON. Status 0 if no answer arrived. */
  call(method: string, message: object): Promise<{ status: number; body: string }>;
  close(): void;
}

/** Makes the app whose guard is an entry. */
export async function makeGuarded({ apps }: Pick<ReturnType<typeof manage>, "apps">): Promise<void> {
  await apps.createApp({ app: { id: "guarded", backend: { kind: { case: "guard", value: {} } } } });
}

const runApp = "/keyrun.v1.RunService/RunApp";
/** `RunAppRequest` for the app `echo` and the text `x`, and in an envelope. */
const message = Buffer.from("\x0a\x04echo\x12\x01x", "latin1");
const enveloped = Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message]);
const json = "application/json";

export function openFleetCaller(
  { publicUrl, publicH2Url = publicUrl, internalUrl, serviceToken }: FleetAddress,
  { connectionsMax = 64, sessions = 1 }: { connectionsMax?: number; sessions?: number } = {},
): FleetCaller {
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  const h2 = Array.from({ length: sessions }, () => keptSession(publicH2Url));
  let turn = 0;
  const session = () => h2[turn++ % sessions]!();
  const post = (base: string, sent: Sent) => overHttp1(agent, base, sent);
  const rest = { path: "/api/apps/echo/run", body: '{"text":"x"}', type: json };
  const uses: Record<FleetEntry, (value: string) => Promise<Received>> = {
    rest: (token) => post(publicUrl, { ...rest, token }),
    "rest-h2": (token) => overHttp2(session(), { ...rest, token }),
    grpc: (token) => overHttp2(session(), { path: runApp, token, body: enveloped, type: "application/grpc" }),
    connect: (token) =>
      post(publicUrl, { path: runApp, token, body: '{"appId":"echo","text":"x"}', type: json }),
    "connect-h2": (token) =>
      overHttp2(session(), { path: runApp, token, body: message, type: "application/proto" }),
    "grpc-web": (token) =>
      post(publicUrl, { path: runApp, token, body: enveloped, type: "application/grpc-web+proto" }),
    guard: (token) => post(publicUrl, { path: "/api/apps/guarded/guard/x", token, body: "", type: json }),
    verify: (value) =>
      post(internalUrl, {
        path: "/keyrun.v1.KeyService/VerifyKey",
        token: serviceToken,
        body: JSON.stringify({ value }),
        type: json,
      }),
  };
  return {
    use: async (entry, value) => answerOf(entry, await uses[entry](value)),
    call: (method, message) =>
      post(internalUrl, {
        path: `/keyrun.v1.${method}`,
        token: serviceToken,
        body: JSON.stringify(message),
        type: json,
      }),
    close() {
      agent.destroy();
      for (const open of h2) open().destroy();
    },
  };
}

interface Sent {
  readonly path: string;
  readonly token: string;
  readonly body: string | Buffer;
  readonly type: string;
}

interface Received {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

function overHttp1(agent: Agent, base: string, { path, token, body, type }: Sent): Promise<Received> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": type,
      "connect-protocol-version": "1",
      "content-length": Buffer.byteLength(body),
    };
    const lost = (error: unknown) => resolve({ status: 0, headers: {}, body: String(error) });
    request(`${base}${path}`, { method: "POST", agent, headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => {
        text += chunk;
      });
      answer.on("error", lost);
      answer.on("end", () =>
        resolve({ status: answer.statusCode ?? 0, headers: named(answer.headers), body: text }),
      );
    })
      .on("error", lost)
      .end(body);
  });
}

/** A function that returns the open session, or a new one where the last one has ended. */
function keptSession(url: string): () => ClientHttp2Session {
  let open: ClientHttp2Session | undefined;
  return () => {
    if (open && !open.closed && !open.destroyed) return open;
    open = connect(url);
    open.setMaxListeners(0);
    // The error reaches each request of the session as well.
    open.on("error", () => undefined).on("goaway", () => undefined);
    return open;
  };
}

function overHttp2(session: ClientHttp2Session, { path, token, body, type }: Sent): Promise<Received> {
  return new Promise((resolve) => {
    let status = 0;
    const headers: Record<string, string> = {};
    let text = "";
    const keep = (some: object) => void Object.assign(headers, named(some));
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      authorization: `Bearer ${token}`,
      "content-type": type,
      "connect-protocol-version": "1",
      te: "trailers",
    });
    stream.on("response", (head) => {
      status = Number(head[":status"]);
      keep(head);
    });
    stream.on("trailers", keep);
    stream.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
    });
    stream.on("error", (error) => resolve({ status: 0, headers: {}, body: String(error) }));
    stream.on("close", () => {
      if (stream.rstCode === 0) resolve({ status, headers, body: text });
      else resolve({ status: 0, headers: {}, body: `closed with code ${stream.rstCode}` });
    });
    stream.end(body);
  });
}

function named(headers: object): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

function answerOf(entry: FleetEntry, { status, headers, body }: Received): Answer {
  const outcome = outcomeOf(entry, { status, headers, body });
  return { outcome, headers, body: outcome === "accepted" ? body : `${status} ${body}` };
}

function outcomeOf(entry: FleetEntry, { status, headers, body }: Received): Outcome {
  if (status === 0) return "lost";
  if (entry === "grpc" || entry === "grpc-web") {
    // gRPC-Web has its trailers in the body, but for an answer that has nothing else.
    const code = headers["grpc-status"] ?? /grpc-status: ?(\d+)/.exec(body)?.[1] ?? "none";
    if (code === "16") return /revoked/i.test(`${headers["grpc-message"]} ${body}`) ? "revoked" : "other";
    return grpcOutcomes.get(code) ?? "other";
  }
  if (entry === "verify" && status === 200) return verdicts.get(JSON.parse(body).verdict) ?? "other";
  if (status === 401) return /revoked/i.test(body) ? "revoked" : "other";
  return restOutcomes.get(status) ?? "other";
}

const grpcOutcomes = new Map<string, Outcome>([
  ["0", "accepted"],
  ["8", "limited"],
  ["14", "unavailable"],
]);
const restOutcomes = new Map<number, Outcome>([
  [200, "accepted"],
  [429, "limited"],
  [503, "unavailable"],
]);
const verdicts = new Map<string, Outcome>([
  ["VERDICT_VALID", "accepted"],
  ["VERDICT_REVOKED", "revoked"],
  ["VERDICT_RATE_LIMITED", "limited"],
]);
