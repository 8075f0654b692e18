import { create, fromJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import { edgeOf, ruleOf, testType } from "./transcoding.ts";

const raw = "google.api.HttpBody";
const png = { contentType: "image/png" };
const bytes = Uint8Array.of(0xff, 0x00, 0x22);

test("an HttpBody request holds the body's bytes and its type, unchanged", () => {
  const edge = edgeOf({ input: raw, rule: ruleOf("PUT /v1/file *") });
  expect(edge.send("PUT /v1/file", bytes, png).json).toEqual({ contentType: "image/png", data: "/wAi" });
  expect(edge.send("PUT /v1/file").json).toEqual({});
});

test("with an HttpBody field the body is that field, and path and query set the others", () => {
  const edge = edgeOf("PUT /v1/{name} file");
  expect(edge.send("PUT /v1/a?requestId=r", bytes, png).json).toEqual({
    name: "a",
    requestId: "r",
    file: { contentType: "image/png", data: "/wAi" },
  });
  expect(edge.send("PUT /v1/a", '{"data":"x"}', { contentType: "application/json" }).json).toMatchObject({
    file: { contentType: "application/json", data: Buffer.from('{"data":"x"}').toString("base64") },
  });
  expect(edge.send("PUT /v1/a?file.contentType=x", bytes)).toMatchObject({ param: "file.contentType" });
});

test("a compressed HttpBody is refused", () => {
  const sent = edgeOf("PUT /v1/{name} file").send("PUT /v1/a", bytes, { ...png, contentEncoding: "gzip" });
  expect(sent.kind).toBe("unsupported_media_type");
});

test("an HttpBody response is sent as its bytes with its type", () => {
  const { transcoder } = edgeOf({ output: raw, rule: ruleOf("GET /v1/file") });
  const encode = (contentType: string) =>
    transcoder.encodeResponse(transcoder.bindings[0]!, create(HttpBodySchema, { contentType, data: bytes }));
  expect(encode("image/png")).toEqual({ contentType: "image/png", body: bytes });
  expect(encode("")).toEqual({ contentType: "application/octet-stream", body: bytes });
});

test("an HttpBody field may be the response body", () => {
  const { transcoder } = edgeOf({ rule: { ...ruleOf("GET /v1/file"), responseBody: "file" } });
  const reply = fromJson(testType("BookReply"), {
    file: { contentType: "image/png", data: "/wAi" },
    note: "n",
  });
  const { contentType, body } = transcoder.encodeResponse(transcoder.bindings[0]!, reply);
  expect([contentType, [...Buffer.from(body)]]).toEqual(["image/png", [...bytes]]);
});
