import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openScreen } from "./screen.ts";
import { answerCalls, holdCalls } from "./screen-calls.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const picture = "docs/screen.png";
const nowMs = Date.UTC(2026, 5, 15, 9, 30);

const ago = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();
const hours = 60;
const days = 24 * hours;

/** A team that doesn't exist, so that the picture shows no real keys and is the same each time. */
const team = { id: "acme", displayName: "Acme", plan: "PLAN_TEAM" };
const weekday = [0.85, 1, 0.95, 1.05, 0.9, 0.2, 0.15];
const keys = [
  {
    label: "Data science notebook",
    redacted: "svc_t9xe…Vn6s",
    created: 2 * hours,
    by: "lin@acme.example",
    used: null,
  },
  {
    label: "ci-deploy",
    redacted: "svc_q8vd…Rk4T",
    created: 12 * days,
    by: "lin@acme.example",
    used: 6,
    expires: 78 * days,
    uses: (day: number) => (day < 18 ? 0 : 140 * weekday[day % 7]!),
  },
  {
    label: "Support assistant",
    redacted: "svc_h5yn…Ae0u",
    created: 20 * days,
    by: "mara@acme.example",
    used: 0.6,
    uses: (day: number) => Math.max(0, day - 9) ** 2 * 3.4 * (0.8 + ((day * 7) % 5) / 10),
  },
  {
    label: "Web shop",
    redacted: "svc_7k3f…x9Qz",
    created: 34 * days,
    by: "ada@acme.example",
    used: 0.05,
    appIds: ["summarize"],
    requestsPerMinute: 400,
    uses: (day: number) => 4_100 * weekday[day % 7]! * (1 + day / 40),
  },
  {
    label: "Nightly reports",
    redacted: "svc_2mzt…b7Wc",
    created: 81 * days,
    by: "ada@acme.example",
    used: 8 * hours,
    expires: 9.5 * days,
    uses: (day: number) => (day % 7 === 6 ? 260 : 90 + ((day * 13) % 17)),
  },
  {
    label: "Old billing worker",
    redacted: "svc_c4wr…m2Ld",
    created: 210 * days,
    by: "the service token",
    used: 3 * days,
    uses: (day: number) => (day > 26 ? 0 : 900 - 33 * day + ((day * 31) % 90)),
  },
].map(({ label, redacted, created, by, used, expires, uses, ...restrictions }, index) => ({
  key: {
    id: `${index}`.repeat(24),
    teamId: team.id,
    label,
    redactedValue: redacted,
    createTime: ago(created),
    createdBy: by,
    ...(used !== null && { lastUseTime: ago(used) }),
    ...(expires !== undefined && { expireTime: ago(-expires) }),
    ...restrictions,
    state: "KEY_STATE_ACTIVE",
  },
  counts: uses && Array.from({ length: 30 }, (_, day) => `${Math.round(uses(day))}`),
}));

// No `skip` here: the reporter counts a skipped test as missing.
if (process.env.KEYRUN_WRITE_PICTURE === "1") {
  test("takes the picture in the README anew", async () => {
    const screen = await openScreen({
      browser: { viewport: { width: 1280, height: 1180 }, deviceScaleFactor: 2, colorScheme: "light" },
    });
    const { page } = screen;
    await page.clock.setFixedTime(nowMs);
    await answerCalls(page, "SessionService/GetSession", {
      email: "ada@acme.example",
      previewAccess: true,
      teams: [team],
    });
    await answerCalls(page, "KeyService/ListKeys", {
      keys: keys.map(({ key }) => key),
      activeKeyCount: keys.length,
      activeKeyCountMax: 50,
    });
    await answerCalls(page, "TeamService/GetRateLimit", {
      rateLimit: { limit: 600, remaining: 472, resetTime: ago(-0.1) },
    });
    await answerCalls(page, "AppService/ListRunnableApps", { apps: [{ id: "echo", displayName: "Echo" }] });
    const hourMs = hours * 60_000;
    // One answer for both calls: the chart draws the team's hours, and the lines the keys' days.
    await answerCalls(page, "KeyService/GetUsage", {
      points: Array.from({ length: 24 }, (_, hour) => ({
        startTime: new Date((Math.floor(nowMs / hourMs) - 23 + hour) * hourMs).toISOString(),
        acceptedCount: `${Math.round(200 + 140 * Math.cos(((hour - 5) * Math.PI) / 12) + ((hour * 37) % 41))}`,
        ...(hour === 4 && { limitedCount: "38" }),
        ...(hour === 19 && { failedCount: "46" }),
      })),
      keys: keys.flatMap(({ key, counts }) => (counts ? [{ keyId: key.id, acceptedCounts: counts }] : [])),
    });
    // Keyrun knows neither the person nor the team, and would say so.
    await holdCalls(page, "KeyService/WatchKeys");
    await page.goto(screen.url("/settings/team/acme/api-keys"));
    await page.getByText("128 of 600 used").waitFor();
    await page.getByRole("row", { name: "Old billing worker" }).locator("polyline").waitFor();
    await page.screenshot({ path: join(root, picture) });
  });
}

test("the README shows a picture of the screen, in 1280 px and sharp", () => {
  expect(readFileSync(join(root, "README.md"), "utf8")).toMatch(/!\[[^\]]{20,}\]\(docs\/screen\.png\)/);
  const bytes = readFileSync(join(root, picture));
  expect(bytes.subarray(0, 8)).toEqual(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]));
  // The first field of the header is the width.
  expect(bytes.readUInt32BE(16)).toBe(2 * 1280);
  expect(bytes.length).toBeLessThan(500_000);
});
