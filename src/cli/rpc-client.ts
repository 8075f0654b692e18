import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { SecureContextOptions } from "node:tls";
import type { DescMethodUnary, DescService, MessageJsonType } from "@bufbuild/protobuf";
import { clientHeader, type DeclaredClient } from "../auth/principal.ts";
import { CallRefused, CallUnanswered, type ErrorAnswer, isCallError } from "./call-errors.ts";

/** The unary RPCs of a service, as functions of JSON messages. */
export type UnaryCalls<Service extends DescService> = {
  readonly [Name in keyof Service["method"] as Service["method"][Name] extends DescMethodUnary
    ? Name
    : never]: (
    request: MessageJsonType<Service["method"][Name]["input"]>,
  ) => Promise<MessageJsonType<Service["method"][Name]["output"]>>;
};

/** The deadline of every call. */
export const rpcMsMax = 10_000;
const answerBytesMax = 16 * 1024 * 1024;
const connectionsMax = 4;

interface Server {
  /** `host:port`. */
  readonly address: string;
  /** Absent for calls that need no credential. */
  readonly serviceToken: string | undefined;
  readonly tls: SecureContextOptions | undefined;
}

/**
 * A client that speaks Connect's JSON over HTTP/1.1. Commands start twice as fast with it as with
 * Connect's own client: that one loads Protobuf, an HTTP/2 client and a server. Sends no request
 * yet. A call rejects with CallRefused or CallUnanswered.
 */
export function openClient({ address, serviceToken, tls }: Server) {
  // `import` of this module would load all that it exports, fetch and WebSocket among them.
  const { Agent, request } = process.getBuiltinModule(tls === undefined ? "node:http" : "node:https");
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  const origin = `${tls === undefined ? "http" : "https"}://${address}`;
  const headers = {
    "content-type": "application/json",
    "connect-protocol-version": "1",
    "connect-timeout-ms": String(rpcMsMax),
    // For the names of actors in records.
    [clientHeader]: "command-line" satisfies DeclaredClient,
    ...(serviceToken !== undefined && { authorization: `Bearer ${serviceToken}` }),
  };

  async function call(path: string, message: unknown): Promise<unknown> {
    const signal = AbortSignal.timeout(rpcMsMax);
    try {
      const sent = request(`${origin}/${path}`, { ...tls, agent, method: "POST", headers, signal });
      sent.end(JSON.stringify(message));
      const [response]: IncomingMessage[] = await once(sent, "response");
      // The error of a connection that breaks from here on reaches the reader of the response.
      sent.on("error", () => {});
      return await readAnswer(response);
    } catch (error) {
      if (isCallError(error)) throw error;
      throw new CallUnanswered(signal.aborted ? "LATE" : codeOf(error), error);
    }
  }

  return {
    /** The calls of the service with this name. */
    calls<Service extends DescService>(name: string): UnaryCalls<Service> {
      // The type comes from the same proto as the server, which answers with this JSON or refuses.
      return new Proxy({} as UnaryCalls<Service>, {
        get: (_, method) => (message: unknown) => call(`${name}/${rpcName(String(method))}`, message),
      });
    },
    close: () => agent.destroy(),
  };
}

function rpcName(method: string): string {
  return method.charAt(0).toUpperCase() + method.slice(1);
}

async function readAnswer(response: IncomingMessage | undefined): Promise<unknown> {
  if (!/^application\/json\b/.test(response?.headers["content-type"] ?? ""))
    throw new CallUnanswered("STRANGE");
  const answer = parseObject(await readText(response ?? []));
  if (response?.statusCode === 200) return answer;
  if (typeof answer.code !== "string") throw new CallUnanswered("STRANGE");
  // Connect's form of an error. What an answer lacks of it counts as absent.
  throw new CallRefused(answer as unknown as ErrorAnswer);
}

async function readText(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > answerBytesMax) throw new CallUnanswered("STRANGE");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return { ...value };
  } catch {
    // Refused below.
  }
  throw new CallUnanswered("STRANGE");
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
