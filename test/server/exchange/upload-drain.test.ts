import { afterEach, expect, test } from "vitest";
import { h2cAnswer, h2cSession } from "../../harness/h2c-client.ts";
import { type Keyrun, startKeyrun } from "../../harness/keyrun.ts";
import { openGrpcCall } from "../../harness/raw-grpc.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";

let keyrun: Keyrun | undefined;

afterEach(() => keyrun?.close());

test("an upload that is running at the drain's end is answered that it may be repeated, over HTTP/1.1 and HTTP/2", async () => {
  keyrun = await startKeyrun({ settings: { KEYRUN_DRAIN_MS_MAX: "500" } });
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const { publicUrl } = keyrun;
  const path = "/api/apps/echo/run";
  const client = rawSocket({ port: Number(new URL(publicUrl).port) });
  client.send(
    `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${value}\r\nContent-Length: 100\r\n\r\n{`,
  );
  const session = await h2cSession(publicUrl);
  const stream = session.request({ ":method": "POST", ":path": path, authorization: `Bearer ${value}` });
  const over2 = h2cAnswer(stream);
  stream.write("{");
  const overGrpc = openGrpcCall(session, "/keyrun.v1.RunService/RunApp", {
    authorization: `Bearer ${value}`,
  });
  overGrpc.stream.write(Buffer.alloc(3));
  // Each is admitted once it has spent one of the team's requests.
  const look = async () => {
    const probe = await fetch(`${publicUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${value}` },
      body: "{}",
    });
    return Number(probe.headers.get("ratelimit-limit")) - Number(probe.headers.get("ratelimit-remaining"));
  };
  let probes = 0;
  await expect.poll(async () => (await look()) - ++probes).toBe(3);

  const closed = keyrun.close();
  const [over1] = answersIn(await client.closed());
  const answers = [
    { status: over1?.status, retryAfter: over1?.headers.get("retry-after"), body: over1?.body ?? "" },
    await over2.then(({ status, headers, body }) => ({ status, retryAfter: headers["retry-after"], body })),
  ];
  for (const { status, retryAfter, body } of answers) {
    expect([status, retryAfter]).toEqual([503, "1"]);
    expect(JSON.parse(body).error).toMatchObject({ code: "unavailable", status: "UNAVAILABLE" });
  }
  const { trailers } = await overGrpc.answer;
  expect(trailers).toMatchObject({ "grpc-status": "14", "ratelimit-policy": '"team";q=60;w=60' });
  expect(trailers["x-should-retry"]).toBeUndefined();
  // No app has got it, so a client library may repeat it by itself.
  expect(over1?.headers.get("x-should-retry")).toBeUndefined();
  await closed;
});
