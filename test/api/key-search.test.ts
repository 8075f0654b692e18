import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { refusedCall } from "./refused-call.ts";

/** How many keys one call looks at; the tests lower it. */
let searchedMax = Number.POSITIVE_INFINITY;
/** Every text that the store was given for a search. */
const given: string[] = [];

const keyrun = closedAtEnd(
  await startKeyrun({
    onStores: ({ keys, ...stores }) => ({
      ...stores,
      keys: {
        ...keys,
        placeOf: (n, query) => keys.placeOf(Math.min(n, searchedMax), query),
        list: (query) => {
          given.push(JSON.stringify(query));
          return keys.list(query);
        },
      },
    }),
  }),
);

async function newKeys(labels: readonly string[]) {
  const teamId = await keyrun.newTeam();
  const made = [];
  for (const label of labels) made.push(await keyrun.keys.createKey({ teamId, label }));
  return { teamId, made: made.map(({ key, value }) => ({ ...key!, value })) };
}

async function labels(request: Parameters<Keyrun["keys"]["listKeys"]>[0]) {
  return (await keyrun.keys.listKeys(request)).keys.map(({ label }) => label);
}

test("a label is found by any part of it in any case, and spaces around the query don't count", async () => {
  const { teamId } = await newKeys(["ci-deploy", "Nightly", "DEPLOY staging"]);
  expect(await labels({ teamId, query: " deploy " })).toEqual(["DEPLOY staging", "ci-deploy"]);
  expect(await labels({ teamId, query: ".*" })).toEqual([]);
  expect(await labels({ teamId, query: "   " })).toHaveLength(3);
});

test("a label is found in the other form of Unicode, and in full width, as is a pasted key", async () => {
  const { teamId, made } = await newKeys(["Caf\u00e9", "Cafe\u0301", "ＤＥＰＬＯＹ"]);
  for (const query of ["caf\u00e9", "cafe\u0301", "ＣＡＦ\u00c9"]) {
    expect([query, await labels({ teamId, query })]).toEqual([query, ["Cafe\u0301", "Caf\u00e9"]]);
  }
  expect(await labels({ teamId, query: "deploy" })).toEqual(["ＤＥＰＬＯＹ"]);
  const wide = made[0]!.value.replace(/[!-~]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) + 0xfee0));
  expect(await labels({ teamId, query: wide })).toEqual(["Caf\u00e9"]);
});

test("a key is found by the beginning of its id, with and without the prefix, and by its redacted value", async () => {
  const { teamId, made } = await newKeys(["one", "two", "three"]);
  const [, { id, redactedValue }] = made as [unknown, { id: string; redactedValue: string }];
  const dots = redactedValue.replace("…", "...");
  const texts = [id, id.slice(0, 10), id.toUpperCase(), `svc_${id}`, `SVC_${id.slice(0, 12)}`];
  for (const query of [...texts, redactedValue, dots, dots.slice(8), redactedValue.slice(8)]) {
    expect([query, await labels({ teamId, query })]).toEqual([query, ["two"]]);
  }
  expect(await labels({ teamId, query: id.slice(1) })).toEqual([]);
});

test("a full key finds its key by the id alone, in whatever stands around it, and revoked ones only when asked", async () => {
  const { teamId, made } = await newKeys(["mine", "other"]);
  const { id, value } = made[0]!;
  const wrongSecret = `${value.slice(0, -6)}000000`;
  for (const query of [value, wrongSecret, value.slice(0, 40), `"${value}"`, `Bearer ${value}`]) {
    expect(await labels({ teamId, query })).toEqual(["mine"]);
  }
  await keyrun.keys.revokeKey({ teamId, keyId: id });
  expect(await labels({ teamId, query: value })).toEqual([]);
  expect(await labels({ teamId, query: value, showRevoked: true })).toEqual(["mine"]);
});

test("no part of a pasted secret reaches the store, the answer, a page token, a refusal or the log", async () => {
  const { teamId, made } = await newKeys(["a", "b"]);
  const secret = made[0]!.value.slice(29);
  const answers: unknown[] = [];
  for (const query of [made[0]!.value, secret, `Bearer ${secret}`, `x${secret}y`]) {
    const answer = await keyrun.keys.listKeys({ teamId, query, pageSize: 1 });
    answers.push(
      answer.nextPageToken,
      answer.keys.map(({ id, label }) => [id, label]),
    );
  }
  const tooLong = await keyrun.keys
    .listKeys({ teamId, query: made[0]!.value.repeat(2) })
    .catch((thrown: unknown) => ConnectError.from(thrown));
  answers.push(tooLong instanceof ConnectError ? [tooLong.rawMessage, tooLong.details] : "not refused");
  const tokens = answers.filter((each) => typeof each === "string").map((each) => atob(String(each)));
  const everything = JSON.stringify([answers, tokens, given, keyrun.logLines]);
  for (let at = 0; at + 8 <= secret.length; at++) {
    expect(everything.includes(secret.slice(at, at + 8))).toBe(false);
  }
});

test.each([
  ["129 code points", "\u{1f5dd}".repeat(129)],
  ["a line break", "a\nb"],
  ["a character that turns the text around", "a\u202eb"],
])("a query of %s is refused by the field's name, without its text", async (_, query) => {
  const { teamId } = await newKeys([]);
  const { code, words } = await refusedCall(keyrun.keys.listKeys({ teamId, query }));
  expect(code).toBe(Code.InvalidArgument);
  expect(words).toMatch(/^query must /);
  expect(words).not.toContain(query.slice(0, 3));
});

// No letter of the ids is in these queries, so that no id fits by chance.
test("a page token goes on with its own query alone", async () => {
  const { teamId } = await newKeys(["u1", "l", "u2", "u3"]);
  const first = await keyrun.keys.listKeys({ teamId, query: "u", pageSize: 2 });
  expect(first.keys.map(({ label }) => label)).toEqual(["u3", "u2"]);
  const { nextPageToken: pageToken } = first;
  expect(await labels({ teamId, query: "U", pageSize: 2, pageToken })).toEqual(["u1"]);
  for (const other of [{ query: "l" }, {}, { query: "u", showRevoked: true }]) {
    const refusal = keyrun.keys.listKeys({ teamId, pageSize: 2, pageToken, ...other });
    await expect(refusal).rejects.toMatchObject({ code: Code.InvalidArgument });
  }
});

test("a search that has looked at as many keys as one call may goes on with its token, and finds every key once", async () => {
  const { teamId } = await newKeys(["u1", "-", "-", "-", "-", "u2", "-", "u3", "u4"]);
  searchedMax = 1;
  const found: string[] = [];
  let calls = 0;
  let pageToken = "";
  do {
    const page = await keyrun.keys.listKeys({ teamId, query: "u", pageSize: 2, pageToken });
    found.push(...page.keys.map(({ label }) => label));
    pageToken = page.nextPageToken;
    calls += 1;
  } while (pageToken !== "");
  searchedMax = Number.POSITIVE_INFINITY;
  expect(found).toEqual(["u4", "u3", "u2", "u1"]);
  // Of 9 keys, the calls look at 5 at most: the first two, at 3 again, and at the rest.
  expect(calls).toBe(3);
});

test("a list tells how many of the team's keys are active and how many are revoked, whatever the query", async () => {
  const { teamId, made } = await newKeys(["a", "b", "c"]);
  for (const { id } of made.slice(1)) await keyrun.keys.revokeKey({ teamId, keyId: id });
  for (const query of ["", "a", "nothing"]) {
    expect(await keyrun.keys.listKeys({ teamId, query })).toMatchObject({
      activeKeyCount: 1,
      activeKeyCountMax: 50,
      revokedKeyCount: 2,
    });
  }
});
