import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type Caller, connectCallers, type RunOutcome } from "../harness/callers.ts";
import { type IssuedKey, type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { restCaller } from "../harness/rest-caller.ts";

const clock = createManualClock();
let keyrun: Keyrun;
let rest: Caller;
let rpc: Caller;

beforeAll(async () => {
  keyrun = await startKeyrun({
    clock,
    settings: { KEYRUN_TRUST_PROXY: "1", KEYRUN_PLAN_LIMITS: "free=3,pro=5" },
  });
  rest = restCaller(keyrun.publicUrl);
  rpc = (connectCallers.gRPC ?? expect.fail())(keyrun.publicUrl);
  for (const id of ["restricted", "shared"]) {
    const teamIds = id === "restricted" ? [await keyrun.newTeam()] : [];
    await keyrun.apps.createApp({ app: { id, backend: { kind: { case: "echo", value: {} } }, teamIds } });
  }
});

afterAll(async () => {
  rest.close();
  rpc.close();
  await keyrun.close();
});

/** What one handler needs to go through the sequence; it is made in the same way for both. */
interface Party {
  readonly caller: Caller;
  readonly address: string;
  readonly team: string;
  readonly keys: readonly [IssuedKey, IssuedKey];
  readonly unknown: readonly string[];
}

const wrong = ["missing", "malformed", "garbage", "cut", "unknown", "unknown again", "wrong secret"] as const;
const right = ["first key", "second key"] as const;
type Credential = (typeof wrong)[number] | (typeof right)[number];
const credential: fc.Arbitrary<Credential> = fc.oneof(fc.constantFrom(...wrong), fc.constantFrom(...right));

const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("run" as const),
      credential,
      appId: fc.constantFrom("echo", "shared", "restricted", "nowhere", "Not-An-Id"),
      text: fc.option(fc.string({ maxLength: 5, unit: "binary" }), { nil: undefined }),
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

test("REST and RPC decide alike: the same requests get the same answers and the same numbers", async () => {
  let address = 0;
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      address += 2;
      const parties = [
        await newParty(rest, `198.51.${address >> 7}.${address & 127}`),
        await newParty(rpc, `198.51.${address >> 7}.${(address & 127) + 128}`),
      ];
      for (const each of steps) {
        if (each.kind === "wait") clock.advance(each.ms);
        const said = [];
        for (const party of parties) {
          if (each.kind === "run") {
            const { appId, text } = each;
            const authorization = authorizationOf(party, each.credential);
            const order = {
              appId,
              ...(text !== undefined && { text }),
              headers: { "x-forwarded-for": party.address },
            };
            said.push(
              decisionIn(await party.caller.run({ ...order, ...(authorization && { authorization }) })),
            );
          } else await change(party, each);
        }
        expect(said[1]).toEqual(said[0]);
        if (said[0]) seen.add(said[0].outcome);
      }
    }),
    { numRuns: runsOfSequences, seed: 20_260_101 },
  );
  // Sequences that never meet a refusal would prove little.
  const expected = [
    "APP_NOT_FOUND",
    "INVALID_API_KEY",
    "INVALID_ARGUMENT",
    "MALFORMED_AUTHORIZATION",
    "MISSING_API_KEY",
    "RATE_LIMIT_EXCEEDED",
    "REVOKED_API_KEY",
    "ok",
  ];
  expect([...seen].sort()).toEqual(expected);
}, 120_000);

test.each([
  ["no JSON", "{"],
  ["trailing text", '{"text":"a"} x'],
  ["a byte order mark", '\ufeff{"text":"a"}'],
  ["bytes that are not UTF-8", Buffer.from('{"text":"a\xff"}', "latin1")],
  ["half of a surrogate pair", '{"text":"\\ud800"}'],
  ["a number for a text", '{"text":7}'],
  ["an unknown field", '{"text":"a","colour":"red"}'],
  ["an array", "[]"],
  ["null", "null"],
  ["a text", '{"text":"a"}'],
])("REST and Connect read the same bytes alike: %s", async (_, body) => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  // Connect has the app's id in the body, and REST has it only in the path.
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
  const bytes = new Uint8Array(Buffer.from(body));
  const rest = await sent("/api/apps/echo/run", bytes);
  const named = Buffer.from(Buffer.from(bytes).toString("latin1").replace("{", '{"appId":"echo",'), "latin1");
  const rpc = await sent("/keyrun.v1.RunService/RunApp", new Uint8Array(named));
  expect(rpc.status).toBe(rest.status);
  expect(factsIn(rpc.told)).toEqual(factsIn(rest.told));
});

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
  return { caller, address, team, keys, unknown: [keyrun.unknownKey(), keyrun.unknownKey()] };
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

function authorizationOf({ keys: [first, second], unknown }: Party, kind: Credential): string | undefined {
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
  };
  return values[kind];
}

/**
 * The parts of an answer in which both handlers must agree: not the run's id, nor names of the
 * party.
 */
function decisionIn(outcome: RunOutcome) {
  const { headers } = outcome;
  const numbers = Object.fromEntries([...headers].filter(([name]) => /^(ratelimit|retry-after)/.test(name)));
  if (outcome.kind === "ok") return { outcome: "ok", text: outcome.answer.text, numbers };
  const { code, message, details } = outcome;
  const [info] = details as { reason: string }[];
  return { outcome: info?.reason ?? "none", code, message, details, numbers };
}
