import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import { Refusal } from "../refusal/refusal.ts";
import { appFailed, appUnreachable, type BackendRunner, nameOfFailure } from "./backend-runner.ts";
import { type HostLookup, lookupOf } from "./host-lookup.ts";
import type { Run } from "./runner.ts";
import { trustedRoots } from "./trusted-roots.ts";

/**
 * Runs apps on an HTTP server: one POST of `{"runId","teamId","appId","text"}` with the app's
 * headers, `X-Request-Id` and `X-Keyrun-Deadline-Ms`, the whole milliseconds that are left. Success
 * is 200 with a JSON object that has a string `text`, at most `outputBytesMax` bytes in all. No
 * connection within `backendConnectMsMax` is APP_UNREACHABLE. Everything else, also a redirect,
 * becomes APP_FAILED.
 */
export function createHttpRunner(options: {
  clock: Clock;
  outputBytesMax: number;
  hosts: HostLookup;
}): BackendRunner<"http"> {
  const { clock, outputBytesMax, hosts } = options;
  // Sockets need no bound here: each one in use belongs to a run, and runs are bounded. A run that
  // waited in the agent's queue would be sent with a deadline that is no longer true.
  const agentOptions = {
    lookup: lookupOf(hosts),
    keepAlive: true,
    maxSockets: Number.POSITIVE_INFINITY,
    maxFreeSockets: bounds.backendIdleSocketsMax,
    timeout: bounds.backendSocketIdleMs,
    scheduling: "lifo",
  } as const;
  const http = new HttpAgent(agentOptions);
  let https: HttpsAgent | undefined;

  function httpsAgent() {
    https ??= new HttpsAgent({ ...agentOptions, secureContext: trustedRoots() });
    return https;
  }

  return {
    async run(run, backend, limits) {
      const url = new URL(backend.url);
      const body = Buffer.from(bodyOf(run));
      const requestOptions = {
        method: "POST",
        headers: {
          accept: "application/json",
          ...Object.fromEntries(backend.headers.map(({ name, value }) => [name, value])),
          "Content-Type": "application/json",
          "Content-Length": body.byteLength,
          "Accept-Encoding": "identity",
          "X-Request-Id": run.requestId,
        },
        maxHeaderSize: bounds.backendHeaderBytesMax,
      };
      const request =
        url.protocol === "https:"
          ? httpsRequest(url, { ...requestOptions, agent: httpsAgent() })
          : httpRequest(url, { ...requestOptions, agent: http });
      const send = () => {
        const msLeft = Math.max(0, Math.floor(limits.deadlineMs - clock.monotonicMs()));
        request.setHeader("X-Keyrun-Deadline-Ms", msLeft).end(body);
      };
      limits.whenOver((refusal) => request.destroy(refusal));
      return textOf(await exchange(request, send, outputBytesMax));
    },
    close() {
      http.destroy();
      https?.destroy();
    },
  };
}

function bodyOf(run: Run): string {
  return JSON.stringify({ runId: run.runId, teamId: run.teamId, appId: run.app.id, text: run.text });
}

/**
 * Sends the request once it has a connection, and returns the body of a 200. Settles on `close`,
 * the one event that always comes: a response with status 101 causes no other. Nothing is sent
 * twice, by Node or here, even if a kept connection turns out to be closed, because the backend may
 * have read the request. Only before `send` is it certain that it has not.
 */
function exchange(request: ClientRequest, send: () => void, bytesMax: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let outcome: Buffer | Refusal | undefined;
  let connecting: NodeJS.Timeout | undefined;
  let sent = false;
  function start() {
    clearTimeout(connecting);
    if (request.destroyed) return;
    sent = true;
    send();
  }
  function settle(first: Buffer | Refusal) {
    outcome ??= first;
    // If the server did not take the whole request, the connection can't be used again.
    if (outcome instanceof Refusal || !request.writableFinished) request.destroy();
  }
  request.on("socket", (socket) => {
    if (request.reusedSocket || isConnected(socket)) return start();
    socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", start);
    const late = () => settle(appUnreachable(`No connection within ${bounds.backendConnectMsMax} ms.`));
    connecting = setTimeout(late, bounds.backendConnectMsMax);
  });
  request.on("response", (response) => readAnswer(response, bytesMax, settle));
  request.on("error", (error) => {
    const failure = nameOfFailure(error);
    settle(sent ? appFailed(`The exchange broke off: ${failure}.`) : appUnreachable(failure));
  });
  request.on("close", () => {
    clearTimeout(connecting);
    if (outcome instanceof Buffer) resolve(outcome);
    else reject(outcome ?? appFailed("The connection closed without a whole answer."));
  });
  return promise;
}

/** Bytes can be sent at once. Over TLS, that is after the backend's certificate was verified. */
function isConnected(socket: Socket): boolean {
  return socket instanceof TLSSocket ? socket.authorized : !socket.connecting;
}

function readAnswer(response: IncomingMessage, bytesMax: number, settle: (first: Buffer | Refusal) => void) {
  const { statusCode, headers } = response;
  const encoding = headers["content-encoding"] ?? "identity";
  if (statusCode !== 200) return settle(appFailed(`The backend answered ${statusCode}, not 200.`));
  if (encoding !== "identity") return settle(appFailed("The backend compressed its answer, unasked."));
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) settle(appFailed(`The answer has more than ${bytesMax} bytes.`));
    else chunks.push(chunk);
  });
  response.on("end", () => settle(Buffer.concat(chunks, bytes)));
  response.on("error", (error) => settle(appFailed(`The answer broke off: ${nameOfFailure(error)}.`)));
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(body: Buffer): string {
  const answer = jsonOf(body);
  if (typeof answer === "object" && answer !== null && "text" in answer && typeof answer.text === "string") {
    return answer.text;
  }
  throw appFailed("The answer is not a JSON object with a string `text`.");
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(strictUtf8.decode(body));
  } catch {
    // The parser's error quotes the body, which belongs to the team, so it is not kept as a cause.
    throw appFailed("The answer is not JSON in UTF-8.");
  }
}
