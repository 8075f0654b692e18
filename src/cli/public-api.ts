/**
 * The way to the public listener, as a team's programs take it: where it is, with which API key,
 * and what its answers say. Commands load this when they run.
 */

import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { trustSystemRoots } from "../base/trusted-roots.ts";
import { bounds } from "../bounds.ts";
import { createKeyText } from "../keys/key-value.ts";
import type { Environment } from "../settings/read-settings.ts";
import { programName } from "./called.ts";
import { reachableAt, readConfig, type SettingsWorld } from "./connection.ts";
import { CommandFailure } from "./failures.ts";

/** The REST API with one key. Every failure is a CommandFailure, in words for people. */
export interface PublicApi {
  /** The answer of Keyrun, also where it refuses. */
  ask(request: ApiRequest): Promise<ApiAnswer>;
  /**
   * The messages of a stream as they come, the end among them. Throws where the stream is refused,
   * fails, or breaks off. A reader that stops before the end cancels the stream.
   */
  stream(request: ApiRequest): AsyncGenerator<JsonObject, void>;
}

export interface ApiRequest {
  readonly method: "GET" | "POST";
  /** From `/api/` on. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON, as it is sent. */
  readonly body?: string;
  /** How long Keyrun may wait before it answers; not at all where it is absent. */
  readonly waitMs?: number;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly message: JsonObject;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** How long a run may be waited for: the longest timeout of an app. */
export const runWaitMs = bounds.appTimeoutMsMax;

/** How long a connection may be silent. A test gives shorter times. */
const silence = {
  /** Beside what Keyrun waits: for the way, and for what it does itself. */
  answerMsMax: 10_000,
  /** Of a stream: after 15 s without a message, Keyrun sends a comment. */
  streamMsMax: 60_000,
};

/** An output has at most 16 MiB, and JSON writes one byte of it as at most six. */
const answerBytesMax = 6 * 16 * 1024 * 1024 + 64 * 1024;
/** A piece has at most 64 KiB. */
const lineCharactersMax = 1024 * 1024;

/** Throws if there is no key, or no address. Sends nothing yet. */
export function openPublicApi(world: SettingsWorld, { answerMsMax, streamMsMax } = silence): PublicApi {
  const key = readKey(world.env);
  const url = readUrl(world);
  const isTls = url.startsWith("https:");
  if (isTls) trustSystemRoots();
  const { request } = process.getBuiltinModule(isTls ? "node:https" : "node:http");

  /**
   * The head of the answer. Not by `fetch`, which gives up after 5 minutes without one, where a run
   * may take 10. Follows no redirect: a run would be sent twice, and the key to somebody else.
   */
  async function send({ method, path, headers, body }: ApiRequest, silenceMsMax: number) {
    const sent = request(url + path, {
      method,
      // A connection of its own, which is closed with the answer.
      agent: false,
      timeout: silenceMsMax,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        }),
        ...headers,
      },
    });
    const state = { isLate: false };
    sent.on("timeout", () => {
      state.isLate = true;
      sent.destroy();
    });
    sent.end(body);
    try {
      const [response]: IncomingMessage[] = await once(sent, "response");
      // The error of a connection that breaks from here on reaches the reader of the response.
      sent.on("error", () => {});
      if (response !== undefined) return { response, state };
      throw new CommandFailure(strangeWords(url));
    } catch (cause) {
      throw unanswered(cause, { url, isLate: state.isLate });
    }
  }

  /** Reads the answer whole. */
  async function read(response: IncomingMessage): Promise<ApiAnswer> {
    const { statusCode: status = 0, headers } = response;
    let text = "";
    for await (const chunk of response.setEncoding("utf8")) {
      text += chunk;
      if (text.length > answerBytesMax) throw new CommandFailure(strangeWords(url, status));
    }
    const message = /^application\/json\b/.test(headers["content-type"] ?? "")
      ? parseObject(text)
      : undefined;
    if (message === undefined || (status >= 300 && errorIn(message) === undefined)) {
      throw new CommandFailure(strangeWords(url, status));
    }
    return { status, headers, message };
  }

  return {
    async ask(request) {
      const { response, state } = await send(request, (request.waitMs ?? 0) + answerMsMax);
      return read(response).catch((cause: unknown) => {
        throw unanswered(cause, { url, isLate: state.isLate });
      });
    },
    async *stream(request) {
      const { response, state } = await send(request, streamMsMax);
      let isWhole = false;
      try {
        if (!/^text\/event-stream\b/.test(response.headers["content-type"] ?? "")) {
          accepted(await read(response));
          throw new CommandFailure(strangeWords(url, response.statusCode));
        }
        for await (const { event, data } of eventsOf(response)) {
          const message = parseObject(data);
          if (message === undefined) throw new CommandFailure(strangeWords(url, 200));
          if (event === "error") throw refusal({ status: 200, headers: {}, message });
          isWhole = event === "end";
          yield isWhole ? { end: message } : message;
        }
        if (isWhole) return;
      } catch (cause) {
        if (cause instanceof CommandFailure) throw cause;
        if (state.isLate) throw unanswered(cause, { url, isLate: true });
      } finally {
        response.destroy();
      }
      throw new CommandFailure("The stream broke off before its end: text may be missing.");
    },
  };
}

/** What Keyrun answered, unless it refused: throws with its words then. */
export function accepted(answer: ApiAnswer): ApiAnswer {
  if (answer.status < 300) return answer;
  throw refusal(answer);
}

function refusal({ status, headers, message }: ApiAnswer): CommandFailure {
  const error = errorIn(message) ?? {};
  const { message: words = "", requestId = "", code = "" } = error;
  const seconds = headers["retry-after"];
  const hints = [
    // The words of some refusals say it themselves.
    ...(seconds !== undefined && !words.includes("Try again in") ? [`Try again in ${seconds} s.`] : []),
    ...(requestId === "" ? [] : [idWords(requestId, code, status)]),
  ];
  return new CommandFailure([words, ...hints].join(" "), { error });
}

/** The cause is in the log of Keyrun, and of a fault of the app, a check shows it, too. */
function idWords(requestId: string, code: string, status: number): string {
  if (/^app_(?:failed|unreachable|timeout)$/.test(code)) {
    return `The operator finds the cause in Keyrun's log, under the request id ${requestId}, or by \`${programName} apps check\`.`;
  }
  return status === 500 ? `Tell the operator the request id ${requestId}.` : `(request id ${requestId})`;
}

interface ErrorWords {
  readonly code?: string;
  readonly message?: string;
  readonly requestId?: string;
}

/** The error object of a refusal; undefined where there is none. */
function errorIn({ error }: JsonObject): ErrorWords | undefined {
  const isOurs = typeof error === "object" && error !== null && "message" in error;
  // Its form is that of docs/errors.md.
  return isOurs && typeof error.message === "string" ? (error as ErrorWords) : undefined;
}

/** The key of the environment. Throws where there is no whole one. */
export function readKey({ KEYRUN_API_KEY: key }: Environment): string {
  if (key === undefined || key === "") {
    throw new CommandFailure(
      `KEYRUN_API_KEY is not set: put an API key of the team there, as with \`export KEYRUN_API_KEY=$(${programName} keys create)\`.`,
    );
  }
  // The server may have any prefix.
  const [prefix] = /^[a-z][a-z0-9]{0,11}(?=_)/.exec(key) ?? [];
  if (prefix !== undefined && createKeyText(prefix).isWhole(key)) return key;
  throw new CommandFailure(
    "KEYRUN_API_KEY holds no whole API key: check that it was copied whole, and that nothing stands around it.",
  );
}

/**
 * KEYRUN_URL, else the public listener that the settings of the server on this machine name. Throws
 * if they name none.
 */
export function readUrl(world: SettingsWorld): string {
  const { KEYRUN_URL: given } = world.env;
  if (given === undefined) {
    const { host, port } = readConfig(world);
    if (port !== 0) return `http://${reachableAt({ host, port })}`;
    throw new CommandFailure(
      "KEYRUN_PORT is 0, so the port is another at each start: set KEYRUN_URL to the address that the start printed.",
    );
  }
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isWeb = url?.protocol === "http:" || url?.protocol === "https:";
  if (url && isWeb && !url.username && !url.password && !url.search && !url.hash) {
    return url.href.replace(/\/+$/, "");
  }
  throw new CommandFailure(
    "KEYRUN_URL must be the address of Keyrun's public listener, like https://keyrun.example.com.",
  );
}

/** Why there is no answer, in words. A failure that has words already keeps them. */
function unanswered(cause: unknown, { url, isLate }: { url: string; isLate: boolean }): CommandFailure {
  if (cause instanceof CommandFailure) return cause;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "unknown";
  const words = isLate
    ? `Keyrun did not answer at ${url} in time: try again, or see its log.`
    : `There is no answer from ${url} (${code}): check that Keyrun runs there, and that KEYRUN_URL is the address of its public listener.`;
  return new CommandFailure(words, { cause });
}

function strangeWords(url: string, status?: number): string {
  const what = status === undefined ? "" : ` (HTTP ${status})`;
  return `What answers at ${url} is not Keyrun's public listener${what}: check KEYRUN_URL.`;
}

function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Server-sent events as Keyrun writes them, each `data` in one line. Comments are skipped.
 */
async function* eventsOf(response: IncomingMessage) {
  let event = "message";
  for await (const line of linesOf(response)) {
    if (line === "") event = "message";
    else if (line.startsWith("event: ")) event = line.slice("event: ".length);
    else if (line.startsWith("data: ")) yield { event, data: line.slice("data: ".length) };
  }
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of response.setEncoding("utf8")) {
    const lines = `${rest}${chunk}`.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > lineCharactersMax) throw new Error("a line is too long");
    yield* lines;
  }
}
