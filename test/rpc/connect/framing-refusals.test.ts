import { expect, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { postConnect } from "../../harness/post-connect.ts";

const keyrun = closedAtEnd(await startKeyrun());

interface Told {
  readonly message?: string;
  readonly details?: {
    type: string;
    debug?: { reason?: string; fieldViolations?: { field: string }[] };
  }[];
}

const list = (headers: Record<string, string>, body: string | Buffer) =>
  told("KeyService/ListKeys", headers, body);

async function told(rpc: string, headers: Record<string, string>, body: string | Buffer) {
  const token = keyrun.serviceToken;
  const response = await postConnect(keyrun.internalUrl, rpc, { token, headers, body });
  const { message, details = [] } = (await response.json()) as Told;
  const of = (name: string) => details.filter(({ type }) => type === `google.rpc.${name}`);
  return {
    status: response.status,
    message,
    reasons: of("ErrorInfo").map(({ debug }) => debug?.reason),
    fields: of("BadRequest").flatMap(({ debug }) => debug?.fieldViolations?.map(({ field }) => field)),
  };
}

const noJson = "The body is not valid JSON.";

test.each([
  ["a body that is not JSON", "{", noJson],
  ["a body that is cut off", '{"teamId":"demo"', noJson],
  ["no body", "", noJson],
  ["a byte order mark", "\ufeff{}", `${noJson} It begins with a byte order mark: send it without.`],
  [
    "bytes that are not UTF-8",
    Buffer.from('{"teamId":"d\xff"}', "latin1"),
    "The body is not valid UTF-8, as JSON must be.",
  ],
])(
  "%s is not JSON, and is refused as over REST, although Connect refuses it by itself",
  async (_, body, message) => {
    expect(await list({}, body)).toEqual({ status: 400, message, reasons: ["INVALID_JSON"], fields: [] });
  },
);

const notHere = "is no field here. Use one of: teamId, pageSize, pageToken, showRevoked, query, onlyRevoked.";

test.each([
  ["that nobody knows", '{"teamId":"demo","colour":"red"}', "colour", `colour ${notHere}`],
  ["of no name", '{"teamId":"demo","":1}', '""', `"" ${notHere}`],
  ["whose name is two lines", '{"teamId":"demo","a\\nb":1}', "a\nb", `a\nb ${notHere}`],
  ["of another type", '{"teamId":7}', "teamId", "teamId must be a string."],
  ["out of its range", '{"pageSize":1e99}', "pageSize", "pageSize must be at most 2147483647."],
  ["with both of its names", '{"teamId":"a","team_id":"b"}', "teamId", "teamId and team_id are one field."],
])(
  "a field %s is refused by name and in our words, although Connect refuses it by itself",
  async (_, body, field, message) => {
    expect(await list({}, body)).toEqual({
      status: 400,
      message,
      reasons: ["INVALID_ARGUMENT"],
      fields: [field],
    });
  },
);

test.each([
  ["expireTime", '"tomorrow"', 'must be a time in RFC 3339, as "2030-01-31T12:00:00Z".'],
  ["expire_time", "1", 'must be a time in RFC 3339, as "2030-01-31T12:00:00Z".'],
  [
    "updateMask",
    '"expire_time"',
    'must be field paths in lowerCamelCase joined by commas, as "title,author.name".',
  ],
])("a value of %s that has not its form is refused by name, with an example", async (name, value, words) => {
  const body = `{"teamId":"demo","${name}":${value}}`;
  expect(await told("KeyService/UpdateKey", {}, body)).toEqual({
    status: 400,
    message: `${name} ${words}`,
    reasons: ["INVALID_ARGUMENT"],
    fields: [name],
  });
});

test("a message that is no object is refused in our words", async () => {
  expect((await list({}, "[]")).message).toBe("The body must be a JSON object.");
});

test("a text that is not UTF-8 is refused, and never runs an app with replaced characters", async () => {
  const { value } = await keyrun.newKey("demo");
  const runs = 'keyrun_run_seconds_count{result="succeeded"}';
  const before = await keyrun.metric(runs);
  const response = await postConnect(keyrun.publicUrl, "RunService/RunApp", {
    token: value,
    body: Buffer.from('{"appId":"echo","text":"a\xffb"}', "latin1"),
  });
  expect(response.status).toBe(400);
  expect(await keyrun.metric(runs)).toBe(before);
});

test("bytes that are not a message are refused as the caller's fault, and not as INTERNAL", async () => {
  expect(await list({ "Content-Type": "application/proto" }, "[")).toMatchObject({
    status: 400,
    message: "The message can't be read as keyrun.v1.ListKeysRequest.",
    reasons: ["INVALID_ARGUMENT"],
  });
});

test.each([
  ["that is compressed without a name for it", [1, 0, 0, 0, 1, 0], "13", undefined],
  ["that can't be read", [0, 0, 0, 0, 1, 0x5b], "3", "INVALID_ARGUMENT"],
])("over gRPC-Web a message %s is refused as over gRPC", async (_, body, status, reason) => {
  const response = await fetch(`${keyrun.internalUrl}/keyrun.v1.KeyService/ListKeys`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${keyrun.serviceToken}`,
      "Content-Type": "application/grpc-web+proto",
    },
    body: Uint8Array.from(body),
  });
  const told = `${[...response.headers].map((pair) => pair.join(": ")).join("\n")}\n${await response.text()}`;
  expect(/grpc-status: *(\d+)/.exec(told)?.[1]).toBe(status);
  const details = /grpc-status-details-bin: *(\S+)/.exec(told)?.[1];
  if (reason === undefined) expect(details).toBeUndefined();
  else expect(Buffer.from(details ?? "", "base64").toString("latin1")).toContain(reason);
});

test("an unknown compression is refused without details, as by any framework", async () => {
  const { status, reasons, message } = await list({ "Content-Encoding": "zip" }, "{}");
  expect({ status, reasons }).toEqual({ status: 501, reasons: [] });
  expect(message).toContain("zip");
});

test("a refusal that Connect creates is counted by its reason", async () => {
  const series = 'keyrun_requests_total{entry="connect",outcome="INVALID_ARGUMENT",status="400"}';
  const before = await keyrun.metric(series);
  await list({}, "[]");
  expect(await keyrun.metric(series)).toBe(before + 1);
});
