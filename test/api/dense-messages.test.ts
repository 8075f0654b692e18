import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { CreateTeamRequestSchema } from "#gen/keyrun/v1/team_service_pb.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { jsonValuesMax } from "#transcode/json-text.ts";
import { serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { postConnect } from "../harness/post-connect.ts";
import { openGrpcCall } from "../harness/raw-grpc.ts";

const keyrun = closedAtEnd(await startKeyrun());
const key = await keyrun.newKey(await keyrun.newTeam());

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

test("a request without the text of a run has at most 256 KiB, over gRPC and Connect", async () => {
  const token = keyrun.serviceToken;
  const ofBytes = (length: number) => {
    const team = { id: "a team", displayName: "x".repeat(length) };
    const request = create(CreateTeamRequestSchema, { team });
    return Buffer.from(toBinary(CreateTeamRequestSchema, request));
  };
  const session = await h2cSession(keyrun.internalUrl);
  const overGrpc = async (length: number) => {
    const { stream, answer } = openGrpcCall(session, "/keyrun.v1.TeamService/CreateTeam", {
      authorization: `Bearer ${token}`,
    });
    stream.end(frameOf(ofBytes(length)));
    return (await answer).trailers["grpc-status"];
  };
  const overConnect = async (length: number) => {
    const headers = { "Content-Type": "application/proto" };
    const call = { token, headers, body: ofBytes(length) };
    return (await postConnect(keyrun.internalUrl, "TeamService/CreateTeam", call)).status;
  };
  // Where it is read, its fields are looked at: INVALID_ARGUMENT.
  expect([await overGrpc(255 * 1024), await overConnect(255 * 1024)]).toEqual(["3", 400]);
  expect([await overGrpc(257 * 1024), await overConnect(257 * 1024)]).toEqual(["8", 429]);
  session.destroy();
});
