import type { JsonValue } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { createParser } from "eventsource-parser";
import { codeName } from "#src/http/refusal-response.ts";
import { openH2cSession } from "./h2c-client.ts";
import {
  isStreamEnd,
  type RefusalWords,
  type StreamCallerMaker,
  type StreamEnd,
  type StreamEvent,
  type StreamRequest,
} from "./stream-callers.ts";

type StreamType = "text/event-stream" | "application/x-ndjson";

/** REST in both forms, over both versions of HTTP. */
export const restStreamCallers: Readonly<Record<string, StreamCallerMaker>> = {
  "REST with events over HTTP/1.1": (url) => restCaller(http1(url), "text/event-stream"),
  "REST with events over HTTP/2": (url) => restCaller(http2(url), "text/event-stream"),
  "REST with lines over HTTP/1.1": (url) => restCaller(http1(url), "application/x-ndjson"),
  "REST with lines over HTTP/2": (url) => restCaller(http2(url), "application/x-ndjson"),
};

interface Asked {
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  readonly leaving: AbortSignal;
}

interface Answered {
  readonly status: number;
  readonly headers: Headers;
  /** The body as it comes. Throws if the connection breaks. */
  readonly texts: AsyncIterable<string>;
}

interface Client {
  ask(asked: Asked): Promise<Answered>;
  close(): void;
}

function http1(url: string): Client {
  return {
    close: () => {},
    async ask({ path, headers, body, leaving }) {
      const answer = await fetch(`${url}${path}`, { method: "POST", headers, body, signal: leaving });
      const { status, headers: received, body: stream } = answer;
      if (stream === null) throw new Error("an answer without a body");
      return { status, headers: received, texts: stream.pipeThrough(new TextDecoderStream()) };
    },
  };
}

function http2(url: string): Client {
  const { session, close } = openH2cSession(url);
  return {
    close,
    async ask({ path, headers, body, leaving }) {
      const sent = { ":method": "POST", ":path": path, ...Object.fromEntries(headers) };
      const stream = (await session).request(sent, { signal: leaving });
      stream.setEncoding("utf8").end(body);
      const received = new Headers();
      const status = await new Promise<number>((resolve, reject) => {
        stream.once("error", reject).once("close", () => reject(new Error("The stream has no head.")));
        stream.once("response", (head) => {
          for (const [name, value] of Object.entries(head)) {
            if (!name.startsWith(":")) received.set(name, String(value));
          }
          resolve(Number(head[":status"]));
        });
      });
      return { status, headers: received, texts: stream };
    },
  };
}

function restCaller(client: Client, type: StreamType): ReturnType<StreamCallerMaker> {
  return {
    close: client.close,
    open(order) {
      const leaving = new AbortController();
      const headers = new Headers();
      let refusal: RefusalWords | undefined;
      const onAnswer = (received: Headers) =>
        received.forEach((value, name) => void headers.set(name, value));
      const onRefusal = (words: RefusalWords) => {
        refusal = words;
      };
      const asked = { ...requestOf(order, type), leaving: leaving.signal };
      const events = eventsOf(client, { type, asked, onAnswer, onRefusal });
      return {
        headers,
        get refusal() {
          return refusal;
        },
        leave: () => leaving.abort(),
        next: () => nextOf(events),
      };
    },
  };
}

async function nextOf(events: AsyncGenerator<StreamEvent, StreamEnd>): Promise<StreamEvent> {
  return (await events.next()).value ?? { kind: "end" };
}

async function* eventsOf(
  client: Client,
  how: {
    type: StreamType;
    asked: Asked;
    onAnswer: (headers: Headers) => void;
    onRefusal: (words: RefusalWords) => void;
  },
): AsyncGenerator<StreamEvent, StreamEnd> {
  const { type, asked, onAnswer, onRefusal } = how;
  let answer: Answered;
  try {
    answer = await client.ask(asked);
  } catch {
    return { kind: "cut off" };
  }
  onAnswer(answer.headers);
  if (answer.status !== 200) {
    const body = await bodyOf(answer);
    const { message, details } = body.error;
    onRefusal({ message, details });
    return { ...refusalOf(body), httpStatus: answer.status };
  }
  const told: StreamEvent[] = [];
  const read = type === "text/event-stream" ? eventReader(told) : lineReader(told);
  try {
    for await (const text of answer.texts) {
      read(text);
      for (const event of told.splice(0)) {
        if (isStreamEnd(event)) return event;
        yield event;
      }
    }
  } catch {}
  return { kind: "cut off" };
}

function requestOf({ appId, text, input, authorization, headers: sent }: StreamRequest, type: StreamType) {
  const headers = new Headers({ "content-type": "application/json", accept: type, ...sent });
  if (authorization !== undefined) headers.set("authorization", authorization);
  return {
    path: `/api/apps/${encodeURIComponent(appId)}/stream`,
    headers,
    body: JSON.stringify({ text, input }),
  };
}

interface RefusalBody {
  readonly error: RefusalWords & { readonly code: string; readonly status: string };
}

async function bodyOf({ texts }: Answered): Promise<RefusalBody> {
  let body = "";
  for await (const text of texts) body += text;
  return JSON.parse(body);
}

/** Server-sent events, read by a parser that is not ours. */
export function eventReader(told: StreamEvent[]): (text: string) => void {
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === "end") told.push({ kind: "end" });
      else if (event === "error") told.push(refusalOf(JSON.parse(data)));
      else if (event === undefined) told.push(messageOf(JSON.parse(data)));
      else throw new Error(`an event of the name ${event}`);
    },
  });
  return (text) => parser.feed(text);
}

export function lineReader(told: StreamEvent[]): (text: string) => void {
  let rest = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const json = JSON.parse(line);
      if ("ping" in json) continue;
      if ("end" in json) told.push({ kind: "end" });
      else told.push("error" in json ? refusalOf(json) : messageOf(json));
    }
  };
}

function messageOf(json: {
  started?: { runId: string; appId: string };
  delta?: { text: string };
  output?: JsonValue;
}): StreamEvent {
  if (json.started) return { kind: "started", ...json.started };
  if (json.delta) return { kind: "delta", ...json.delta };
  if (json.output !== undefined) return { kind: "output", output: json.output };
  throw new Error(`not a message: ${JSON.stringify(json)}`);
}

function refusalOf({ error }: RefusalBody): StreamEnd & { kind: "refused" } {
  const code = codes.get(error.status);
  if (code === undefined) throw new Error(`not a code: ${error.status}`);
  return { kind: "refused", code, reason: error.code.toUpperCase() };
}

const codes = new Map(
  Object.values(Code)
    .filter((code) => typeof code === "number")
    .map((code) => [codeName(code), code]),
);
