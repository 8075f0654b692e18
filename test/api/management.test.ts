import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { refusedCall } from "./refused-call.ts";

const clock = createManualClock();

const keyrun = closedAtEnd(await startKeyrun({ clock }));

const echo = { kind: { case: "echo", value: {} } } as const;

async function reasonOf(call: Promise<unknown>) {
  const { code, reason } = await refusedCall(call);
  return [Code[code], reason];
}

/** All items of a list, read in pages of two. */
async function allOf<Item, Page extends { nextPageToken: string }>(
  fetch: (page: { pageSize: number; pageToken: string }) => Promise<Page>,
  itemsOf: (page: Page) => readonly Item[],
): Promise<Item[]> {
  const items: Item[] = [];
  let pageToken = "";
  do {
    const page = await fetch({ pageSize: 2, pageToken });
    expect(itemsOf(page).length).toBeLessThanOrEqual(2);
    items.push(...itemsOf(page));
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return items;
}

test("a new embedded store has the team demo on the free plan and the app echo", async () => {
  expect((await keyrun.teams.getTeam({ teamId: "demo" })).team).toMatchObject({ plan: Plan.FREE });
  expect((await keyrun.apps.getApp({ appId: "echo" })).app?.backend?.kind.case).toBe("echo");
});

describe("teams", () => {
  test("are created, read, listed and changed, and an id is used once", async () => {
    const { team } = await keyrun.teams.createTeam({
      team: { id: "acme", displayName: "Acme", plan: Plan.PRO },
    });
    expect(team).toMatchObject({ id: "acme", displayName: "Acme", plan: Plan.PRO });
    expect((await keyrun.teams.getTeam({ teamId: "acme" })).team).toEqual(team);
    expect(await reasonOf(keyrun.teams.createTeam({ team: { id: "acme" } }))).toEqual([
      "AlreadyExists",
      "TEAM_EXISTS",
    ]);
    const changed = await keyrun.teams.updateTeam({
      team: { id: "acme", displayName: "Acme & Co", plan: Plan.TEAM },
      updateMask: { paths: ["display_name"] },
    });
    expect(changed.team).toEqual({ ...team, displayName: "Acme & Co" });
    const listed = await allOf(
      (page) => keyrun.teams.listTeams(page),
      ({ teams }) => teams,
    );
    expect(listed.map(({ id }) => id)).toEqual(expect.arrayContaining(["acme", "demo"]));
    expect(new Set(listed.map(({ id }) => id)).size).toBe(listed.length);
  });

  test("with an invalid id, or a change that names no field, are refused", async () => {
    for (const id of ["", "Acme", "1team", "a_b", "x".repeat(64)]) {
      expect(await reasonOf(keyrun.teams.createTeam({ team: { id } }))).toEqual([
        "InvalidArgument",
        "INVALID_ARGUMENT",
      ]);
    }
    expect(await reasonOf(keyrun.teams.updateTeam({ team: { id: "demo" } }))).toEqual([
      "InvalidArgument",
      "INVALID_ARGUMENT",
    ]);
    expect(await reasonOf(keyrun.teams.getTeam({ teamId: "nobody" }))).toEqual([
      "NotFound",
      "TEAM_NOT_FOUND",
    ]);
  });

  test("can read their limit without spending", async () => {
    const teamId = await keyrun.newTeam();
    const { value } = await keyrun.newKey(teamId);
    await keyrun.keys.verifyKey({ value, cost: 3 });
    for (let i = 0; i < 3; i++) {
      const { rateLimit } = await keyrun.teams.getRateLimit({ teamId });
      expect(rateLimit).toMatchObject({ limit: 60, remaining: 57 });
    }
  });
});

describe("members and preview access", () => {
  test("are added and removed by e-mail in any case, and repeating is no error", async () => {
    const teamId = await keyrun.newTeam();
    const emails = ["ada@example.com", "bob@example.com", "eve@example.com"];
    for (const email of [...emails, "ADA@example.com"]) await keyrun.teams.addMember({ teamId, email });
    const members = await allOf(
      (page) => keyrun.teams.listMembers({ teamId, ...page }),
      (page) => page.members,
    );
    expect(members.map(({ email }) => email)).toEqual(emails);
    for (let i = 0; i < 2; i++) await keyrun.teams.removeMember({ teamId, email: "Bob@Example.com" });
    expect((await keyrun.teams.listMembers({ teamId })).members).toHaveLength(2);
  });

  test("preview access is granted, withdrawn and read", async () => {
    const granted = async (email: string) => (await keyrun.teams.getPreviewAccess({ email })).granted;
    expect(await granted("ada@example.com")).toBe(false);
    for (const email of ["ada@example.com", "bob@example.com", "eve@example.com"]) {
      await keyrun.teams.setPreviewAccess({ email, granted: true });
    }
    expect(await granted("Ada@Example.com")).toBe(true);
    await keyrun.teams.setPreviewAccess({ email: "ADA@example.com", granted: false });
    expect(await granted("ada@example.com")).toBe(false);
    const emails = await allOf(
      (page) => keyrun.teams.listPreviewAccess(page),
      (page) => page.emails,
    );
    expect(emails).toEqual(expect.arrayContaining(["bob@example.com", "eve@example.com"]));
    expect(emails).not.toContain("ada@example.com");
  });

  test("a text that is no e-mail is refused", async () => {
    const teamId = await keyrun.newTeam();
    for (const email of ["", "ada", "ada@", "a b@example.com"]) {
      expect(await reasonOf(keyrun.teams.addMember({ teamId, email }))).toEqual([
        "InvalidArgument",
        "INVALID_ARGUMENT",
      ]);
    }
  });
});

describe("apps", () => {
  test("change from the next request on: created, restricted, opened again and deleted", async () => {
    const { teamId, value } = await keyrun.newKey(await keyrun.newTeam());
    const caller = restCaller(keyrun.publicUrl);
    const run = async () => {
      const outcome = await caller.run({ appId: "mirror", text: "x", authorization: `Bearer ${value}` });
      return outcome.kind === "ok" ? 200 : outcome.httpStatus;
    };
    const restrict = (teamIds: string[]) =>
      keyrun.apps.updateApp({ app: { id: "mirror", teamIds }, updateMask: { paths: ["team_ids"] } });
    expect(await run()).toBe(404);
    await keyrun.apps.createApp({ app: { id: "mirror", backend: echo } });
    expect(await run()).toBe(200);
    await restrict(["demo"]);
    expect(await run()).toBe(404);
    await restrict(["demo", teamId]);
    expect(await run()).toBe(200);
    await keyrun.apps.deleteApp({ appId: "mirror" });
    expect(await run()).toBe(404);
    expect(await reasonOf(keyrun.apps.deleteApp({ appId: "mirror" }))).toEqual(["NotFound", "APP_NOT_FOUND"]);
  });

  test("that a team may run are listed with id and name alone", async () => {
    const [mine, other] = [await keyrun.newTeam(), await keyrun.newTeam()];
    for (const [id, teamId] of [
      ["only-mine", mine],
      ["only-other", other],
    ] as const) {
      await keyrun.apps.createApp({
        app: { id, displayName: `App ${id}`, backend: echo, teamIds: [teamId] },
      });
    }
    const apps = await allOf(
      (page) => keyrun.apps.listRunnableApps({ teamId: mine, ...page }),
      (page) => page.apps,
    );
    const ids = apps.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(["echo", "only-mine"]));
    expect(ids).not.toContain("only-other");
    expect(apps.find(({ id }) => id === "only-mine")).toEqual({
      $typeName: "keyrun.v1.RunnableApp",
      id: "only-mine",
      displayName: "App only-mine",
      guard: false,
    });
  });

  test("never show the values of their backend's headers", async () => {
    const value = "a-credential-of-the-backend";
    const headers = [{ name: "X-Backend-Token", value }];
    const backend = {
      kind: { case: "http" as const, value: { url: "http://127.0.0.1:9/run", headers } },
    };
    const created = await keyrun.apps.createApp({ app: { id: "secretive", backend } });
    const told = [created, await keyrun.apps.getApp({ appId: "secretive" }), await keyrun.apps.listApps({})];
    const text = JSON.stringify(told, (_, each) => (typeof each === "bigint" ? String(each) : each));
    expect(text).toContain("x-backend-token");
    expect(text).not.toContain(value);
  });
});

test.each([
  ["events", (page: Page) => keyrun.audit.listEvents(page)],
  ["keys", (page: Page) => keyrun.keys.listKeys({ ...page, teamId: "demo" })],
  ["service tokens", (page: Page) => keyrun.serviceTokens.listServiceTokens(page)],
])("a page token of the %s whose position no page can end at is refused", async (_, list) => {
  for (let n = 0; n < 2; n++) {
    await keyrun.newKey("demo");
    await keyrun.newServiceToken(ServiceRole.VERIFY);
  }
  const { nextPageToken } = await list({ pageSize: 1, pageToken: "" });
  const [scope, position] = JSON.parse(Buffer.from(nextPageToken, "base64url").toString());
  const at = (place: string) => {
    const pageToken = Buffer.from(JSON.stringify([scope, place])).toString("base64url");
    return list({ pageSize: 1, pageToken });
  };
  expect(await at(position)).toEqual(await list({ pageSize: 1, pageToken: nextPageToken }));
  for (const place of [
    "",
    "garbage",
    "/a",
    "5/",
    "x/a",
    "-5/a",
    "1.5/a",
    "1e3/a",
    " 5/a",
    `${"9".repeat(16)}/a`,
  ]) {
    expect(await reasonOf(at(place))).toEqual(["InvalidArgument", "INVALID_ARGUMENT"]);
  }
});

interface Page {
  readonly pageSize: number;
  readonly pageToken: string;
}
