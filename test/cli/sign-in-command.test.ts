import { expect, onTestFinished, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const clock = createManualClock({ monotonicMs: 0, unixMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678) });
const keyrun = closedAtEnd(await startKeyrun({ clock }));
const linkForm = new RegExp(`^${keyrun.publicUrl}/sign-in/link#code=[0-9A-Za-z_-]{43}$`);

const signInLink = (...options: string[]) =>
  runCommand(["sign-in-link", ...options], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

test("sign-in-link prints the link alone on standard output, and until when it works beside it", async () => {
  const { code, stdout, stderr } = await signInLink();
  expect(code).toBe(0);
  expect(stdout.endsWith("\n")).toBe(true);
  expect(stdout.slice(0, -1)).toMatch(linkForm);
  expect(stderr).toBe(
    "Open it in a browser on this machine. It works once until 2026-01-02T03:14:05Z, and signs in the person who opens it.\n",
  );
});

test("sign-in-link --json is the RPC's response", async () => {
  const { stdout } = await signInLink("--json");
  expect(JSON.parse(stdout)).toEqual({
    url: expect.stringMatching(linkForm),
    expireTime: "2026-01-02T03:14:05.678Z",
  });
});

test("where an issuer signs people in, it says where", async () => {
  const withIssuer = await startKeyrun({
    settings: {
      KEYRUN_PORT: String(await freePort()),
      KEYRUN_PUBLIC_URL: "https://keyrun.example.com",
      KEYRUN_OIDC_ISSUER: "https://id.example",
      KEYRUN_OIDC_CLIENT_ID: "keyrun",
      KEYRUN_OIDC_CLIENT_SECRET: "for-tests-only",
    },
  });
  onTestFinished(() => withIssuer.close());
  const { code, stdout, stderr } = await runCommand(["sign-in-link"], {
    env: { KEYRUN_DATA_DIR: withIssuer.config.dataDir },
  });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("Sign in at https://keyrun.example.com/sign-in.");
});
