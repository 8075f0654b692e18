import { ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { BadRequestSchema } from "#gen/google/rpc/error_details_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());
const teamId = await keyrun.newTeam();
const key = await keyrun.newKey(teamId);
await keyrun.apps.createApp({ app: { id: "plain", backend: { kind: { case: "echo", value: {} } } } });

const http = (url: string) => ({ kind: { case: "http" as const, value: { url } } });
const template = (fields: { request?: string; textAt?: string; streamEvent?: string }) => ({
  kind: { case: "http" as const, value: { url: "http://127.0.0.1:1/", ...fields } },
});

/** Every field of an RPC in which a person may paste a text that is kept, shown or looked for. */
const fields: Readonly<Record<string, (text: string) => Promise<unknown>>> = {
  label: (label) => keyrun.keys.createKey({ teamId, label }),
  "label of a change": (label) =>
    keyrun.keys.updateKey({ teamId, keyId: key.id, label, updateMask: { paths: ["label"] } }),
  "team.display_name": (displayName) =>
    keyrun.teams.createTeam({ team: { id: "pasted", displayName, plan: Plan.FREE } }),
  "team.display_name of a change": (displayName) =>
    keyrun.teams.updateTeam({ team: { id: teamId, displayName }, updateMask: { paths: ["display_name"] } }),
  "app.display_name": (displayName) =>
    keyrun.apps.createApp({ app: { id: "pasted", displayName, backend: http("http://127.0.0.1:1/") } }),
  "app.display_name of a change": (displayName) =>
    keyrun.apps.updateApp({ app: { id: "plain", displayName }, updateMask: { paths: ["display_name"] } }),
  "app.backend.http.url": (text) =>
    keyrun.apps.createApp({ app: { id: "pasted", backend: http(`http://127.0.0.1:1/${text}`) } }),
  "app.backend.http.request": (text) =>
    keyrun.apps.createApp({
      app: { id: "pasted", backend: template({ request: JSON.stringify({ text }) }) },
    }),
  "app.backend.http.text_at": (text) =>
    keyrun.apps.createApp({ app: { id: "pasted", backend: template({ textAt: `/${text}` }) } }),
  "app.backend.http.stream_event": (text) =>
    keyrun.apps.createApp({ app: { id: "pasted", backend: template({ streamEvent: `a=${text}` }) } }),
  "app.backend.grpc.target": (text) =>
    keyrun.apps.createApp({
      app: { id: "pasted", backend: { kind: { case: "grpc", value: { target: `${text}:443` } } } },
    }),
  email: (text) => keyrun.teams.addMember({ teamId, email: `ada@${text}` }),
  targets: (text) => keyrun.audit.listEvents({ teamId, targets: [text] }),
  actor: (actor) => keyrun.audit.listEvents({ teamId, actor }),
  action: (action) => keyrun.audit.listEvents({ teamId, action }),
};

test.each(Object.keys(fields))(
  "a whole key in %s is refused by the field's name, in words without it",
  async (name) => {
    const thrown = await fields[name]!(key.value).then(
      () => expect.fail("it was accepted"),
      (error: unknown) => ConnectError.from(error),
    );
    const [{ fieldViolations } = { fieldViolations: [] }] = thrown.findDetails(BadRequestSchema);
    const param = name.split(" ")[0]!;
    expect(fieldViolations.map(({ field }) => field)).toEqual([param]);
    expect(thrown.rawMessage).toBe(
      `${param} must not hold an API key, a service token or a sign-in link: it is kept and shown. Send it without.`,
    );
    expect(JSON.stringify(thrown.findDetails(BadRequestSchema))).not.toContain(key.id);
  },
);

test.each(["service token", "sign-in link", "key in full width", "key as a part"])(
  "a whole %s is refused as a label, too",
  async (kind) => {
    const { value } = await keyrun.serviceTokens.createServiceToken({
      name: kind.replaceAll(" ", "-"),
      role: 1,
    });
    const texts: Record<string, string> = {
      "service token": value,
      "sign-in link": `${keyrun.publicUrl}/sign-in/link#code=${"aB3_-".repeat(9).slice(0, 43)}`,
      "key in full width": key.value.replace(".", "\uff0e"),
      "key as a part": `mine: "${key.value}"`,
    };
    await expect(keyrun.keys.createKey({ teamId, label: texts[kind]! })).rejects.toThrow(
      /^\[invalid_argument\]/,
    );
  },
);

test("a part of a key, and its id, are labels", async () => {
  for (const label of [key.id, key.value.slice(0, 40)]) {
    expect((await keyrun.keys.createKey({ teamId, label })).key?.label).toBe(label);
  }
});

test("a whole key as Idempotency-Key is refused, and as X-Request-Id it counts as none", async () => {
  const send = async (headers: Record<string, string>) => {
    const response = await fetch(`${keyrun.publicUrl}/api/apps/plain/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.value}`, "content-type": "application/json", ...headers },
      body: '{"text":"x"}',
    });
    return { status: response.status, id: response.headers.get("x-request-id"), told: await response.text() };
  };
  const repeat = await send({ "idempotency-key": key.value });
  expect([repeat.status, JSON.parse(repeat.told).error.param]).toEqual([400, "Idempotency-Key"]);
  expect(repeat.told).not.toContain(key.id);
  const named = await send({ "x-request-id": key.value });
  expect(named).toMatchObject({ status: 200, id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
});
