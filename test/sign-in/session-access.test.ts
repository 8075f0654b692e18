import { expect, test } from "vitest";
import { localOwner } from "#src/sign-in/local-links.ts";
import { screenAddress } from "#src/sign-in/screen-address.ts";
import { createSessionAccess } from "#src/sign-in/session-access.ts";

const ada = { issuer: "https://issuer.example", subject: "ada", email: "ada@example.com" };
const principal = { kind: "session", sessionId: "s", email: ada.email } as const;

/** What the stores say of Ada, who has all rights. A test takes some away. */
function startAccess() {
  const rights = {
    isLive: true,
    hasPreview: true,
    teams: ["demo"],
    user: ada,
    owner: ada as typeof ada | undefined,
  };
  const access = createSessionAccess({
    address: () => screenAddress({ publicUrl: undefined, bound: { host: "127.0.0.1", port: 8080 } }),
    sessions: {
      isLive: async () => rights.isLive,
      userOf: async () => (rights.isLive ? rights.user : undefined),
    } as Partial<Parameters<typeof createSessionAccess>[0]["sessions"]> as never,
    preview: { has: async () => rights.hasPreview } as never,
    members: { find: async (teamId: string) => rights.teams.find((each) => each === teamId) } as never,
    users: { find: async () => rights.owner } as never,
  });
  return { access, rights };
}

type Rights = ReturnType<typeof startAccess>["rights"];
const takenAway: readonly [string, Partial<Rights>, string][] = [
  ["the session", { isLive: false }, "INVALID_CREDENTIAL"],
  ["preview access", { hasPreview: false }, "PREVIEW_REQUIRED"],
  ["the membership", { teams: ["acme"] }, "TEAM_NOT_FOUND"],
  ["the e-mail, which has a new owner,", { owner: { ...ada, subject: "eve" } }, "INVALID_CREDENTIAL"],
  ["the e-mail, which nobody has,", { owner: undefined }, "INVALID_CREDENTIAL"],
];

test.each(takenAway)("a call that runs is refused once %s is gone", async (_, taken, reason) => {
  const { access, rights } = startAccess();
  await access.check(principal, "demo");
  Object.assign(rights, taken);
  await expect(access.check(principal, "demo")).rejects.toMatchObject({ reason });
});

test("a team that is not the caller's is refused as one that does not exist", async () => {
  const { access } = startAccess();
  const refusals = ["acme", "nowhere"].map((teamId) =>
    access.requireMember(principal, teamId).catch((thrown) => thrown),
  );
  const [theirs, none] = await Promise.all(refusals);
  expect(theirs.message).toBe(none.message);
  expect([theirs.reason, none.reason]).toEqual(["TEAM_NOT_FOUND", "TEAM_NOT_FOUND"]);
});

test("the local owner has no issuer that could give the e-mail to somebody else", async () => {
  const { access, rights } = startAccess();
  rights.user = localOwner;
  rights.owner = undefined;
  await access.check({ ...principal, email: localOwner.email }, "demo");
});

test("callers without a session have none that could end", async () => {
  const { access, rights } = startAccess();
  rights.isLive = false;
  await access.check({ kind: "service" }, "demo");
});
