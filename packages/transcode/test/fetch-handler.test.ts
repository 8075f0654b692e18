import { create, type DescService, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { createFetchHandler } from "../src/fetch-handler.ts";
import { ruleOf, serviceOf, type TestRule, testType, testTypes } from "./transcoding.ts";

interface Context {
  readonly signal: AbortSignal;
  readonly requestHeader: Headers;
  readonly responseHeader: Headers;
  readonly responseTrailer: Headers;
}
type Note = Message & { noteId: string; text: string };
type Work = (request: Note, context: Context) => unknown;

const get: TestRule = { rule: ruleOf("GET /v1/notes/{note_id}"), input: "Note", output: "NoteReply" };
const send: TestRule = { ...get, rule: ruleOf("POST /v1/notes/{note_id} *") };
const watch: TestRule = { ...get, rule: ruleOf("GET /v1/notes/{note_id}:watch"), serverStreaming: true };

/** REST for a Connect router with one method. */
function served(rule: TestRule, work: Work, bodyBytesMax?: number) {
  const service: DescService = serviceOf(rule);
  const routes = (router: ConnectRouter) => void router.service(service, { call0: work } as never);
  const handle = createFetchHandler({
    services: [service],
    transport: createRouterTransport(routes),
    registry: testTypes,
    ...(bodyBytesMax !== undefined && { bodyBytesMax }),
  });
  return (path: string, init?: RequestInit) => handle(new Request(`http://localhost${path}`, init));
}

const reply = (text: string) => create(testType("NoteReply"), { text } as never);
const echo: Work = ({ noteId, text }) => reply(`${noteId}: ${text}`);
const post = (body: string, headers: Record<string, string> = {}) => ({
  method: "POST",
  body,
  headers: { "content-type": "application/json", ...headers },
});

async function answerOf(response: Response | undefined) {
  const body = (await response?.json()) as { readonly error: { readonly details: unknown } };
  return { status: response?.status, body };
}

test("a request becomes a call of the router's method, and its message the response", async () => {
  const response = await served(send, echo)("/v1/notes/a%2Fb", post('{"text":"hello"}'));
  expect(response?.headers.get("content-type")).toBe("application/json");
  expect(await answerOf(response)).toEqual({
    status: 200,
    body: { replyId: "", noteId: "", text: "a/b: hello" },
  });
});

test("a path that no rule takes is left to others", async () => {
  expect(await served(send, echo)("/v2/notes/a", post("{}"))).toBeUndefined();
});

test("a method that the path does not have gets 405, and those that it has", async () => {
  const response = await served(send, echo)("/v1/notes/a", { method: "DELETE" });
  expect(response?.headers.get("allow")).toBe("POST");
  expect(await answerOf(response)).toMatchObject({
    status: 405,
    body: { error: { status: "UNIMPLEMENTED" } },
  });
});

test.each([
  ["a field that is none", '{"txt":"a"}', 400, "txt"],
  ["a field of another type", '{"text":1}', 400, "text"],
])("%s is refused by its name", async (_, body, status, field) => {
  const answer = await answerOf(await served(send, echo)("/v1/notes/a", post(body)));
  const violation = { field, description: expect.any(String) };
  const detail = { "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [violation] };
  const error = { code: status, status: "INVALID_ARGUMENT", message: expect.stringContaining(field) };
  expect(answer).toEqual({ status, body: { error: { ...error, details: [detail] } } });
});

test.each([
  ["no JSON", "/v1/notes/a", post("{"), 400],
  ["another media type", "/v1/notes/a", post("{}", { "content-type": "text/plain" }), 415],
  ["a compressed body", "/v1/notes/a", post("{}", { "content-encoding": "gzip" }), 415],
  ["a path that can't be decoded", "/v1/notes/%ff", post("{}"), 400],
  ["a body past the bound", "/v1/notes/a", post(`{"text":"${"a".repeat(100)}"}`), 413],
])("%s is refused before the method is called", async (_, path, init, status) => {
  const never = () => {
    throw new Error("called");
  };
  expect((await served(send, never, 100)(path, init))?.status).toBe(status);
});

test("a request without a body has no media type to refuse", async () => {
  const form = post("", { "content-type": "application/x-www-form-urlencoded" });
  expect((await served(send, echo)("/v1/notes/a", form))?.status).toBe(200);
});

test("a body of as many bytes as the bound is read", async () => {
  const body = `{"text":"${"a".repeat(89)}"}`;
  expect(body).toHaveLength(100);
  expect((await served(send, echo, 100)("/v1/notes/a", post(body)))?.status).toBe(200);
});

test("headers about the call reach the method and come back with its trailers; those of one HTTP message do not", async () => {
  const handle = served(send, (_, { requestHeader, responseHeader, responseTrailer }) => {
    responseHeader.set("x-cost", "3");
    responseHeader.set("content-disposition", "inline");
    responseTrailer.set("x-left", "7");
    return reply(`${requestHeader.get("authorization")} ${requestHeader.get("content-type")}`);
  });
  const response = await handle("/v1/notes/a", post("{}", { authorization: "Bearer x" }));
  expect(await answerOf(response)).toMatchObject({ body: { text: "Bearer x application/proto" } });
  const names = [...(response?.headers.keys() ?? [])];
  expect(names.sort()).toEqual(["content-disposition", "content-type", "x-cost", "x-left"]);
});

test.each([
  [Code.Canceled, 499, "CANCELLED"],
  [Code.Unknown, 500, "UNKNOWN"],
  [Code.InvalidArgument, 400, "INVALID_ARGUMENT"],
  [Code.DeadlineExceeded, 504, "DEADLINE_EXCEEDED"],
  [Code.NotFound, 404, "NOT_FOUND"],
  [Code.AlreadyExists, 409, "ALREADY_EXISTS"],
  [Code.PermissionDenied, 403, "PERMISSION_DENIED"],
  [Code.ResourceExhausted, 429, "RESOURCE_EXHAUSTED"],
  [Code.FailedPrecondition, 400, "FAILED_PRECONDITION"],
  [Code.Aborted, 409, "ABORTED"],
  [Code.OutOfRange, 400, "OUT_OF_RANGE"],
  [Code.Unimplemented, 501, "UNIMPLEMENTED"],
  [Code.Internal, 500, "INTERNAL"],
  [Code.Unavailable, 503, "UNAVAILABLE"],
  [Code.DataLoss, 500, "DATA_LOSS"],
  [Code.Unauthenticated, 401, "UNAUTHENTICATED"],
])("an error of code %i is status %i and named %s", async (code, status, name) => {
  const handle = served(get, () => {
    throw new ConnectError("why", code, { "retry-after": "3" });
  });
  const response = await handle("/v1/notes/a");
  expect(response?.headers.get("retry-after")).toBe("3");
  const error = { code: status, message: "why", status: name, details: [] };
  expect(await answerOf(response)).toEqual({ status, body: { error } });
});

test("the details of an error are in JSON, and those of an unknown type keep their bytes", async () => {
  const known = { desc: testType("Note"), value: { text: "a" } };
  const handle = served(get, () => {
    throw new ConnectError("why", Code.Aborted, undefined, [known as never]);
  });
  const type = "type.googleapis.com/transcode.test.Note";
  expect((await answerOf(await handle("/v1/notes/a"))).body.error.details).toEqual([
    { "@type": type, text: "a" },
  ]);
  const service = serviceOf(get);
  const thrown = Object.assign(new Error(), {
    code: 10,
    rawMessage: "why",
    details: [{ type: "a.B", value: Uint8Array.of(1) }],
  });
  const transport = { unary: () => Promise.reject(thrown), stream: () => Promise.reject(thrown) };
  const response = await createFetchHandler({ services: [service], transport })(
    new Request("http://localhost/v1/notes/a"),
  );
  expect((await answerOf(response)).body.error.details).toEqual([
    { "@type": "type.googleapis.com/a.B", value: "AQ==" },
  ]);
});

test("what is no error of Connect is INTERNAL, and its words stay here", async () => {
  const transport = {
    unary: () => Promise.reject(new Error("a secret")),
    stream: () => Promise.reject(new Error("a secret")),
  };
  const handle = createFetchHandler({ services: [serviceOf(get)], transport });
  const answer = await answerOf(await handle(new Request("http://localhost/v1/notes/a")));
  expect(answer).toMatchObject({ status: 500, body: { error: { status: "INTERNAL" } } });
  expect(JSON.stringify(answer)).not.toContain("secret");
});

async function* two() {
  yield reply("a");
  yield reply("b");
}

const lineOf = (text: string) => JSON.stringify({ replyId: "", noteId: "", text });

test("a stream is server-sent events, or lines of JSON for those who ask, and says that it is whole", async () => {
  const handle = served(watch, two);
  const events = await handle("/v1/notes/a:watch");
  expect(events?.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(events?.headers.get("cache-control")).toBe("no-store, no-transform");
  expect(await events?.text()).toBe(
    `data: ${lineOf("a")}\n\ndata: ${lineOf("b")}\n\nevent: end\ndata: {}\n\n`,
  );
  for (const type of ["application/x-ndjson", "application/ndjson", "application/jsonl"]) {
    const accept = `text/plain, ${type.toUpperCase()};q=0.9, text/event-stream`;
    const lines = await handle("/v1/notes/a:watch", { headers: { accept } });
    expect(lines?.headers.get("content-type")).toBe(type);
    expect(await lines?.text()).toBe(`${lineOf("a")}\n${lineOf("b")}\n{"end":{}}\n`);
  }
});

test("a message or an error of a stream is one line for readers that cut at the line ends of Unicode", async () => {
  const text = "a\u0085b\u2028c\u2029d";
  const handle = served(watch, async function* () {
    yield reply(text);
    throw new ConnectError(text, Code.Aborted);
  });
  const lines = await handle("/v1/notes/a:watch", { headers: { accept: "application/jsonl" } });
  const [message = "", error = "", ...others] = (await lines?.text())?.split(/[\n\u0085\u2028\u2029]/) ?? [];
  expect(others).toEqual([""]);
  expect([JSON.parse(message).text, JSON.parse(error).error.message]).toEqual([text, text]);
});

test("a stream that fails at once is an error response; one that fails later tells it in its last line", async () => {
  const failing = (messages: number) =>
    async function* () {
      for (let n = 0; n < messages; n += 1) yield reply("a");
      throw new ConnectError("why", Code.Aborted);
    };
  const accept = { headers: { accept: "application/x-ndjson" } };
  const error = { code: 409, message: "why", status: "ABORTED", details: [] };
  const atOnce = await served(watch, failing(0))("/v1/notes/a:watch", accept);
  expect(await answerOf(atOnce)).toEqual({ status: 409, body: { error } });
  const later = await served(watch, failing(1))("/v1/notes/a:watch", accept);
  expect(later?.status).toBe(200);
  expect(await later?.text()).toBe(`${lineOf("a")}\n${JSON.stringify({ error })}\n`);
});

test("a reader that leaves ends the call", async () => {
  const ended = Promise.withResolvers<void>();
  const handle = served(watch, async function* (_, { signal }) {
    signal.addEventListener("abort", () => ended.resolve());
    yield reply("a");
    await ended.promise;
  });
  const reader = (await handle("/v1/notes/a:watch"))?.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  await ended.promise;
});

test("a request that is aborted ends the call", async () => {
  const begun = Promise.withResolvers<void>();
  const handle = served(get, async (_, { signal }) => {
    begun.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return reply("late");
  });
  const abort = new AbortController();
  const response = handle("/v1/notes/a", { signal: abort.signal });
  await begun.promise;
  abort.abort();
  expect((await response)?.status).toBe(499);
});
