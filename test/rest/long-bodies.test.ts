import { create, type Message } from "@bufbuild/protobuf";
import { expect, onTestFinished, test } from "vitest";
import type { Admission } from "#src/admission/admission.ts";
import { unguarded } from "#src/auth/key-evidence.ts";
import { systemClock } from "#src/base/clock.ts";
import type { BodyOutcome } from "#src/http/handler.ts";
import { createRestHandler } from "#src/rest/rest-handler.ts";
import { createTranscoder } from "#transcode/transcoder.ts";
import { bufRegistry } from "../harness/buf-image.ts";
import { serveMounts } from "../harness/served-handler.ts";

const registry = await bufRegistry(`
syntax = "proto3";
package notes.v1;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";

service Notes {
  rpc Write(Note) returns (Note) { option (google.api.http) = { post: "/v1/notes" body: "*" }; }
  rpc Upload(google.api.HttpBody) returns (google.api.HttpBody) {
    option (google.api.http) = { post: "/v1/files" body: "*" };
  }
}
message Note { string text = 1; }
`);
const notes = registry.getService("notes.v1.Notes");
if (!notes) throw new Error("no service");
const transcoder = createTranscoder([notes]);
const rate = {
  policy: "team",
  decision: { accepted: true, limit: 10, remaining: 9, resetUnixMs: 0, retryAfterMs: 0 },
} as const;
const admission: Admission = {
  kind: "admitted",
  principal: { kind: "api_key", keyId: "k", teamId: "t", restrictions: null },
  rate,
  rateNow: () => rate,
};

/** Serves methods that answer with their request. Also returns the bodies that were read. */
async function serveNotes() {
  const bodies: BodyOutcome[] = [];
  const served = await serveMounts((outcomes) => {
    const rest = createRestHandler({
      transcoder,
      outcomes,
      clock: systemClock,
      bodyBytesMax: 1024 * 1024,
      policy: { credentialOf: () => "api_key", requestBytesMaxOf: (_, usualMax) => usualMax },
      admit: async () => admission,
      allowance: { guard: unguarded, look: () => undefined },
      methods: transcoder.bindings.map(({ method }) => ({
        method,
        answer: (request: Message) => create(method.output, { ...request } as Message),
      })),
    });
    return () => ({
      entry: "rest",
      refusalForm: "json",
      handler(request) {
        const { readBody } = request;
        request.readBody = async (bytesMax) => {
          const body = await readBody.call(request, bytesMax);
          bodies.push(body);
          return body;
        };
        return rest(request);
      },
    });
  });
  onTestFinished(() => served.listener.destroy());
  return { ...served, bodies };
}

const text = "é".repeat(200_000);

test("the memory of a long body is freed as soon as its message is read, also if it is refused", async () => {
  const { url, bodies } = await serveNotes();
  const write = async (body: string) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}/v1/notes`, { method: "POST", headers, body });
    return { status: answer.status, json: (await answer.json()) as object };
  };
  expect(await write(JSON.stringify({ text }))).toEqual({ status: 200, json: { text } });
  expect((await write(JSON.stringify({ text: [text] }))).status).toBe(400);
  expect((await write(JSON.stringify({ text }).slice(1))).status).toBe(400);
  expect(bodies.map((body) => body.kind === "whole" && body.bytes.byteLength)).toEqual([0, 0, 0]);
});

test("a long body that is the message itself keeps its bytes", async () => {
  const { url } = await serveNotes();
  const headers = { "content-type": "text/plain" };
  const answer = await fetch(`${url}/v1/files`, { method: "POST", headers, body: text });
  expect([answer.status, await answer.text()]).toEqual([200, text]);
});
