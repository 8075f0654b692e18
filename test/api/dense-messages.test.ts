import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunAppRequestSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { messageFieldsMax } from "#src/rpc/rpc-handler.ts";
import { jsonValuesMax } from "#transcode/json-text.ts";
import { serveHttp } from "../harness/app-backends.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { type IssuedKey, type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { postConnect } from "../harness/post-connect.ts";
import { openGrpcCall } from "../harness/raw-grpc.ts";

let keyrun: Keyrun;
let key: IssuedKey;

beforeAll(async () => {
  keyrun = await startKeyrun();
  key = await keyrun.newKey(await keyrun.newTeam());
});
afterAll(() => keyrun.close());

const post = (appId: string, body: string) =>
  fetch(`${keyrun.publicUrl}/api/apps/${appId}/run`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key.value}`, "Content-Type": "application/json" },
    body,
  });

/** Bodies with so many values, as an attacker would send them. */
const shapes: Readonly<Record<string, (values: number) => string>> = {
  "arrays in arrays": (values) => `${"[".repeat(values)}${"]".repeat(values)}`,
  "empty objects": (values) => `[{}${",{}".repeat(values / 2)}]`,
  names: (values) => `{${Array.from({ length: values }, (_, n) => `"${n}x":0`).join(",")}}`,
  numbers: (values) => `[0${",1".repeat(values)}]`,
};

describe.each(Object.entries(shapes))("JSON of %s, more than are read in one turn", (_, shapeOf) => {
  const body = `{"appId":"echo","text":"a","x":${shapeOf(jsonValuesMax)}}`;

  test("is refused before it is read over REST", async () => {
    const answer = await post("echo", body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: {
        code: "invalid_argument",
        message: expect.stringContaining(`more than ${jsonValuesMax} values`),
      },
    });
  });

  test("and over Connect", async () => {
    const answer = await postConnect(keyrun.internalUrl, "RunService/RunApp", { token: key.value, body });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining(`more than ${jsonValuesMax} values`),
    });
  });

  test("and from an app, whose run fails", async () => {
    await using app = await serveHttp((asked, answer) => {
      asked.resume().on("end", () => answer.writeHead(200, { "Content-Type": "application/json" }).end(body));
    });
    const kind = { case: "http", value: { url: app.backend.url } } as const;
    await keyrun.apps.createApp({ app: { id: "dense", backend: { kind } } });
    try {
      const answer = await post("dense", '{"text":"a"}');
      expect(await answer.json()).toMatchObject({ error: { code: "app_failed" } });
    } finally {
      await keyrun.apps.deleteApp({ appId: "dense" });
    }
  });
});

test("a text of any signs counts as one value", async () => {
  const text = '[{",'.repeat(2 * jsonValuesMax);
  const answered = (await (await post("echo", JSON.stringify({ text }))).json()) as { text: string };
  expect(answered.text === text).toBe(true);
});

describe.each([
  ["unknown numbers", [0x78, 1]],
  ["unknown texts", [0x7a, 0]],
  ["groups", [0x7b, 0x7c]],
  ["one field again and again", [0x12, 0]],
])("a message of %s, with more fields than are read in one turn", (_, field) => {
  const message = (fields: number) =>
    Buffer.concat([
      toBinary(RunAppRequestSchema, create(RunAppRequestSchema, { appId: "echo", text: "a" })),
      ...Array.from({ length: fields }, () => Buffer.from(field)),
    ]);

  test("is refused over gRPC, and one with fewer is not", async () => {
    const session = await h2cSession(keyrun.internalUrl);
    const statusOf = async (body: Buffer) => {
      const { stream, answer } = openGrpcCall(session, "/keyrun.v1.RunService/RunApp", {
        authorization: `Bearer ${key.value}`,
      });
      stream.end(frameOf(body));
      return (await answer).trailers["grpc-status"];
    };
    expect(await statusOf(message(messageFieldsMax))).toBe("3");
    expect(await statusOf(message(messageFieldsMax / 2 - 2))).toBe("0");
    session.destroy();
  });

  test("and over Connect", async () => {
    const headers = { "Content-Type": "application/proto" };
    const answer = await postConnect(keyrun.internalUrl, "RunService/RunApp", {
      token: key.value,
      body: message(messageFieldsMax),
      headers,
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: "invalid_argument" });
  });
});
