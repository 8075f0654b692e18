import fc from "fast-check";
import { expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type Caller, connectCallers, type RunOutcome } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type IssuedKey, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { framed } from "../harness/protocols.ts";
import { messagesIn } from "../harness/reason-of-answer.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { connectStreamCallers, streamedRuns } from "../harness/stream-callers.ts";

const clock = createManualClock();

const keyrun = closedAtEnd(
  await startKeyrun({
    clock,
    settings: {
      KEYRUN_TRUST_PROXY: "1",
      KEYRUN_PLAN_LIMITS: "free=3,pro=5",
      KEYRUN_PLAN_QUOTAS: "free=4/day,pro=5/month",
    },
  }),
);
const app = closedAtEnd(await startScriptedApp());
await keyrun.apps.createApp({ app: { id: "failing", backend: app.backend } });
for (const id of ["restricted", "shared"]) {
  const teamIds = id === "restricted" ? [await keyrun.newTeam()] : [];
  await keyrun.apps.createApp({ app: { id, backend: { kind: { case: "echo", value: {} } }, teamIds } });
}

/** What one caller needs to go through the sequence; it is made in the same way for all. */
interface Party {
  readonly caller: Caller;
  readonly address: string;
  readonly team: string;
  readonly keys: readonly [IssuedKey, IssuedKey];
  /** It may run `echo` and `shared` alone, twice a minute. */
  readonly restrictedKey: IssuedKey;
  readonly unknown: readonly string[];
}

const wrong = ["missing", "malformed", "garbage", "cut", "unknown", "unknown again", "wrong secret"] as const;
const right = ["first key", "second key", "restricted key"] as const;
type Credential = (typeof wrong)[number] | (typeof right)[number];
const credential: fc.Arbitrary<Credential> = fc.oneof(fc.constantFrom(...wrong), fc.constantFrom(...right));

/** The app `failing` answers it with 500. */
const failingText = "fail";

interface RunStep {
  readonly credential: Credential;
  readonly appId: string;
  readonly text: string | undefined;
}

const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("run" as const),
      credential,
      appId: fc.constantFrom("echo", "shared", "restricted", "failing", "nowhere", "Not-An-Id"),
      text: fc.option(fc.oneof(fc.string({ maxLength: 5, unit: "binary" }), fc.constant(failingText)), {
        nil: undefined,
      }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 40_000 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("revoke" as const), which: fc.constantFrom(0, 1) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("plan" as const), plan: fc.constantFrom(Plan.FREE, Plan.PRO) }),
  },
);

const runsOfSequences = 60;

const makers = [
  restCaller,
  connectCallers.gRPC ?? expect.fail(),
  ...Object.values({ ...restStreamCallers, ...connectStreamCallers }).map(streamedRuns),
];

test("every entry decides alike, for a run as for a stream: the same requests get the same answers and numbers", async () => {
  let address = 0;
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      // A client that has read the end of a stream resets it, and many resets end a connection: so
      // each sequence has connections of its own.
      const callers = makers.map((make) => make(keyrun.publicUrl));
      const parties = await Promise.all(
        callers.map((caller) => {
          address += 1;
          return newParty(caller, `198.51.${address >> 8}.${address & 255}`);
        }),
      );
      for (const each of steps) {
        if (each.kind === "wait") clock.advance(each.ms);
        if (each.kind !== "run") {
          for (const party of parties) await change(party, each);
          continue;
        }
        const said = await Promise.all(parties.map((party) => decisionOf(party, each)));
        for (const one of said) expect(one).toEqual(said[0]);
        if (said[0]) seen.add(said[0].outcome);
      }
      for (const caller of callers) caller.close();
    }),
    { numRuns: runsOfSequences, seed: 20_260_101 },
  );
  // Sequences that never meet a refusal would prove little.
  const expected = [
    "APP_FAILED",
    "APP_NOT_ALLOWED",
    "APP_NOT_FOUND",
    "INVALID_API_KEY",
    "INVALID_ARGUMENT",
    "MALFORMED_AUTHORIZATION",
    "MISSING_API_KEY",
    "QUOTA_EXCEEDED",
    "RATE_LIMIT_EXCEEDED",
    "REVOKED_API_KEY",
    "ok",
  ];
  expect([...seen].sort()).toEqual(expected);
});

const bodies: readonly (readonly [string, string | Buffer])[] = [
  ["no JSON", "{"],
  ["trailing text", '{"text":"a"} x'],
  ["a byte order mark", '\ufeff{"text":"a"}'],
  ["bytes that are not UTF-8", Buffer.from('{"text":"a\xff"}', "latin1")],
  ["a name that is there twice", '{"text":"a","text":"b"}'],
  ["a name that is there twice, once escaped", '{"text":"a","t\\u0065xt":"b"}'],
  ["half of a surrogate pair", '{"text":"\\ud800"}'],
  ["a number for a text", '{"text":7}'],
  ["an unknown field", '{"text":"a","colour":"red"}'],
  ["an array", "[]"],
  ["null", "null"],
  ["a text", '{"text":"a"}'],
];

test.each(bodies)("REST and Connect read the same bytes alike: %s", async (_, body) => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const sent = async (path: string, bytes: Uint8Array<ArrayBuffer>) => {
    const response = await fetch(`${keyrun.publicUrl}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${value}`,
        "content-type": "application/json",
        "connect-protocol-version": "1",
      },
      body: bytes,
    });
    return { status: response.status, told: await response.json() };
  };
  const rest = await sent("/api/apps/echo/run", new Uint8Array(Buffer.from(body)));
  const rpc = await sent("/keyrun.v1.RunService/RunApp", new Uint8Array(withAppId(body)));
  expect(rpc.status).toBe(rest.status);
  expect(factsIn(rpc.told)).toEqual(factsIn(rest.told));
});

test.each(bodies)("REST and Connect read the same bytes of a stream alike: %s", async (_, body) => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const sent = async (path: string, type: string, bytes: Buffer) => {
    const response = await fetch(`${keyrun.publicUrl}${path}`, {
      method: "POST",
      headers: {
        accept: "application/x-ndjson",
        authorization: `Bearer ${value}`,
        "content-type": type,
        "connect-protocol-version": "1",
      },
      body: new Uint8Array(bytes),
    });
    return Buffer.from(await response.arrayBuffer());
  };
  const rest = await sent("/api/apps/echo/stream", "application/json", Buffer.from(body));
  const method = "/keyrun.v1.RunService/StreamApp";
  const rpc = await sent(method, "application/connect+json", framed(withAppId(body)));
  const restLines = rest.toString().trimEnd().split("\n");
  const rpcLines = messagesIn(rpc).map(({ bytes }) => bytes.toString());
  expect(streamFactsIn(rpcLines)).toEqual(streamFactsIn(restLines));
});

/** Connect has the app's id in the body, and REST has it only in the path. */
function withAppId(body: string | Buffer): Buffer {
  return Buffer.from(Buffer.from(body).toString("latin1").replace("{", '{"appId":"echo",'), "latin1");
}

/** The same of a stream's messages, of which the last tells how it ended. */
function streamFactsIn(messages: readonly string[]) {
  const all = messages.map((message) => JSON.parse(message));
  const { error } = all.at(-1);
  const isRest = error?.requestId !== undefined;
  const { reasons, fields } = factsIn(isRest ? { error } : (error ?? {}));
  return { text: all.map(({ delta }) => delta?.text ?? "").join(""), reasons, fields };
}

/**
 * The reason and the wrong fields, in either protocol's form of a refusal; or the text of an
 * answer.
 */
function factsIn(told: unknown) {
  const { text, error, details } = told as {
    text?: string;
    error?: { details: Detail[] };
    details?: { debug: Detail }[];
  };
  const all = error?.details ?? details?.map(({ debug }) => debug) ?? [];
  return {
    text,
    reasons: all.flatMap(({ reason }) => reason ?? []),
    fields: all.flatMap(({ fieldViolations }) => fieldViolations?.map(({ field }) => field) ?? []),
  };
}

interface Detail {
  readonly reason?: string;
  readonly fieldViolations?: { field: string }[];
}

async function newParty(caller: Caller, address: string): Promise<Party> {
  const team = await keyrun.newTeam();
  const keys = [await keyrun.newKey(team), await keyrun.newKey(team)] as const;
  const restrictedKey = await keyrun.newKey(team, { appIds: ["shared", "echo"], requestsPerMinute: 2 });
  return { caller, address, team, keys, restrictedKey, unknown: [keyrun.unknownKey(), keyrun.unknownKey()] };
}

async function change(
  { team, keys }: Party,
  step: { kind: "wait" } | { kind: "revoke"; which: number } | { kind: "plan"; plan: Plan },
): Promise<void> {
  if (step.kind === "revoke")
    await keyrun.keys.revokeKey({ teamId: team, keyId: keys[step.which]?.id ?? "" });
  if (step.kind === "plan") {
    await keyrun.teams.updateTeam({ team: { id: team, plan: step.plan }, updateMask: { paths: ["plan"] } });
  }
}

function authorizationOf(
  { keys: [first, second], restrictedKey, unknown }: Party,
  kind: Credential,
): string | undefined {
  const [one = "", other = ""] = unknown;
  const values: Record<Credential, string | undefined> = {
    missing: undefined,
    malformed: "Basic abc",
    garbage: "Bearer garbage",
    cut: `Bearer ${first.value.slice(0, -1)}`,
    unknown: `Bearer ${one}`,
    "unknown again": `Bearer ${other}`,
    "wrong secret": `Bearer ${first.value.slice(0, first.value.indexOf("."))}${one.slice(one.indexOf("."))}`,
    "first key": `Bearer ${first.value}`,
    "second key": `Bearer ${second.value}`,
    "restricted key": `Bearer ${restrictedKey.value}`,
  };
  return values[kind];
}

async function decisionOf(party: Party, { credential, appId, text }: RunStep) {
  const authorization = authorizationOf(party, credential);
  const outcome = await party.caller.run({
    appId,
    ...(text !== undefined && { text }),
    ...(authorization !== undefined && { authorization }),
    headers: { "x-forwarded-for": party.address },
  });
  return decisionIn(outcome);
}

/**
 * The parts of an answer in which all entries must agree: not the run's id, nor names of the
 * party.
 */
function decisionIn(outcome: RunOutcome) {
  const { headers } = outcome;
  const numbers = Object.fromEntries(
    [...headers].filter(([name]) => /^(ratelimit|retry-after|x-should-retry)/.test(name)),
  );
  if (outcome.kind === "ok") return { outcome: "ok", text: outcome.answer.text, numbers };
  const { code, message, details } = outcome;
  const [info] = details as { reason: string }[];
  return { outcome: info?.reason ?? "none", code, message, details, numbers };
}
