import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { type Echo, echoes, sizeOverHttp1, sizeOverHttp2 } from "./hostile-echo.ts";

const refusalBytesMax = 8 * 1024;

/** One session for all streams of a listener: a stream must not end it for the others. */

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "enterprise=100000" } }));
const { value: key } = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
const credentials = { key, token: keyrun.serviceToken };
const [ofPublic, ofInternal] = await Promise.all([
  h2cSession(keyrun.publicUrl),
  h2cSession(keyrun.internalUrl),
]);
const sessions = { public: ofPublic, internal: ofInternal };

afterAll(async () => {
  for (const session of Object.values(sessions)) session.destroy();
});

/** Texts that grow most in one of the encodings: percent-encoding, JSON, UTF-8 and base64. */
const units = ["%", '"', "\u0001", "漢"];

async function expectSmall(echo: Echo, text: string): Promise<void> {
  const sent = echo.isInHead ? text.replace(/[^!-~]/gu, "a").slice(0, 15_000) : text;
  const ask = echo.ask(sent, credentials);
  const about = `${echo.name}, ${sent.length} times ${JSON.stringify(sent.slice(0, 2))}`;
  if (echo.isForHttp1) {
    const url = echo.listener === "public" ? keyrun.publicUrl : keyrun.internalUrl;
    expect(await sizeOverHttp1(url, ask), `${about} over HTTP/1.1`).toBeLessThanOrEqual(refusalBytesMax);
  }
  const session = sessions[echo.listener];
  expect(await sizeOverHttp2(session, ask), `${about} over HTTP/2`).toBeLessThanOrEqual(refusalBytesMax);
  expect((await h2cRequest(session, { ":path": "/nowhere" })).status, about).toBe(404);
}

test.each(echoes.map((echo) => [echo.name, echo] as const))(
  "a refusal that could repeat %s is at most 8 KiB, and the next stream of its session is served",
  async (_, echo) => {
    for (const unit of units) await expectSmall(echo, unit.repeat(15_000));
  },
  60_000,
);

test("an unknown field of nearly 1 MiB is refused in at most 8 KiB over every protocol", async () => {
  const repeating = echoes.filter(({ name }) => name.startsWith("an unknown field"));
  expect(repeating).toHaveLength(7);
  for (const echo of repeating) await expectSmall(echo, "a".repeat(1_048_000));
});

test("a refusal is at most 8 KiB, whatever text the caller wrote wherever it could", async () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", minLength: 100, maxLength: 4_000 }),
    fc
      .tuple(fc.string({ unit: "binary", minLength: 1, maxLength: 8 }), fc.integer({ min: 1, max: 40_000 }))
      .map(([unit, times]) => unit.repeat(times)),
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...echoes), text, (echo, written) => expectSmall(echo, written)),
    { numRuns: 200 },
  );
});
