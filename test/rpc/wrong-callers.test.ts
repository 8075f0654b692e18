import type { DescMethod } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { type CredentialKind, credentialOf, type Listener } from "#src/auth/policy.ts";
import { createBrowser } from "../harness/browser.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { signInOwner } from "../harness/members.ts";

let keyrun: Keyrun;
/** Every kind of caller, by the headers that prove them. */
const callers = {} as Record<"nobody" | "stranger" | "key" | "service" | "member", Record<string, string>>;
beforeAll(async () => {
  keyrun = await startKeyrun();
  const { browser } = await signInOwner(keyrun);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  callers.nobody = {};
  callers.stranger = { authorization: "Bearer not-a-credential-of-anyone", cookie: cookie.slice(0, -8) };
  callers.key = { authorization: `Bearer ${(await keyrun.newKey("demo")).value}` };
  callers.service = { authorization: `Bearer ${keyrun.serviceToken}` };
  callers.member = { cookie };
});
afterAll(() => keyrun.close());

const right: Record<CredentialKind, (keyof typeof callers)[]> = {
  api_key: ["key"],
  service: ["service"],
  session: ["member"],
  preview_session: ["member"],
  none: ["nobody", "stranger", "key", "service", "member"],
};
const services = [RunService, KeyService, SessionService, TeamService, AppService];
const methods = services.flatMap<DescMethod>((service) => service.methods);
const cases = methods.flatMap((method) =>
  (["public", "internal"] as const).map(
    (listener) => [`${method.toString()} on ${listener}`, method, listener] as const,
  ),
);

/** The answer's HTTP status and reason. The body is no message: a request that is let in is refused as invalid. */
async function call(method: DescMethod, listener: Listener, headers: Record<string, string>) {
  const streaming = method.methodKind !== "unary";
  const url = listener === "public" ? keyrun.publicUrl : keyrun.internalUrl;
  const { status, body } = await createBrowser(url).load(`${url}/${method.parent.typeName}/${method.name}`, {
    method: "POST",
    headers: {
      "content-type": streaming ? "application/connect+json" : "application/json",
      "connect-protocol-version": "1",
      ...headers,
    },
    body: streaming ? "\0\0\0\0\x01[" : "[",
  });
  return { status, reason: /"reason":"(\w+)"/.exec(body)?.[1], code: /"code":"(\w+)"/.exec(body)?.[1] };
}

test.each(cases)(
  "%s lets the right caller in, and refuses every other before it reads the request",
  async (...[, method, listener]) => {
    const kind = credentialOf(method, listener);
    // A service's session is never read on the internal listener: nobody is right there.
    const rightOnes =
      kind === undefined || (listener === "internal" && kind === "session") ? [] : right[kind];
    for (const [caller, headers] of Object.entries(callers)) {
      const { code, reason } = await call(method, listener, headers);
      const told = `${caller}: ${code} ${reason}`;
      if (kind === undefined) expect(told).toBe(`${caller}: unimplemented UNIMPLEMENTED`);
      else if (rightOnes.some((one) => one === caller))
        expect(told).toBe(`${caller}: invalid_argument INVALID_JSON`);
      else {
        expect(told).toMatch(
          /: unauthenticated (MISSING|INVALID|MALFORMED)_(API_KEY|CREDENTIAL|AUTHORIZATION)$/,
        );
      }
    }
  },
);

test("the walk saw every method, of every kind", () => {
  expect(methods.length).toBeGreaterThan(20);
  const kinds = cases.map(([, method, listener]) => credentialOf(method, listener));
  expect(new Set(kinds)).toEqual(new Set(["api_key", "service", "session", "preview_session", undefined]));
});
