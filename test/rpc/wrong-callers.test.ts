import type { DescMethod } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { credentialOf, type ListenerName } from "#src/auth/policy.ts";
import type { CredentialKind } from "#src/auth/principal.ts";
import { createBrowser } from "../harness/browser.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { signInOwner } from "../harness/members.ts";

/** The headers of every kind of caller. */
const callers = {} as Record<
  "nobody" | "stranger" | "key" | "service" | "member" | "instance",
  Record<string, string>
>;
const keyrun = closedAtEnd(await startKeyrun());
const { browser } = await signInOwner(keyrun);
const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
callers.nobody = {};
callers.stranger = { authorization: "Bearer not-a-credential-of-anyone", cookie: cookie.slice(0, -8) };
callers.key = { authorization: `Bearer ${(await keyrun.newKey("demo")).value}` };
callers.service = { authorization: `Bearer ${keyrun.serviceToken}` };
callers.member = { cookie };
callers.instance = { authorization: `Bearer ${keyrun.instanceToken}` };

const right: Record<CredentialKind, (keyof typeof callers)[]> = {
  api_key: ["key"],
  service: ["service"],
  session: ["member"],
  preview_session: ["member"],
  instance: ["instance"],
  none: ["nobody", "stranger", "key", "service", "member", "instance"],
};
const services = [
  ...[RunService, KeyService, SessionService, TeamService, AppService, FleetService],
  ServiceTokenService,
  AuditService,
];
const methods = services.flatMap<DescMethod>((service) => service.methods);
const cases = methods.flatMap((method) =>
  (["public", "internal"] as const).map(
    (listener) => [`${method.toString()} on ${listener}`, method, listener] as const,
  ),
);

/**
 * Returns the answer's HTTP status and reason. The body is invalid, so a request that is admitted
 * is refused as invalid.
 */
async function call(method: DescMethod, listener: ListenerName, headers: Record<string, string>) {
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
  "%s admits the right caller, and refuses every other caller before it reads the request",
  async (...[, method, listener]) => {
    const kind = credentialOf(method, listener);
    // Here no caller is the right one: the internal listener never reads a session.
    const rightOnes =
      kind === undefined || (listener === "internal" && kind === "session") ? [] : right[kind];
    for (const [caller, headers] of Object.entries(callers)) {
      const { code, reason } = await call(method, listener, headers);
      const outcome = `${caller}: ${code} ${reason}`;
      if (kind === undefined) expect(outcome).toBe(`${caller}: unimplemented undefined`);
      else if (rightOnes.some((one) => one === caller))
        expect(outcome).toBe(`${caller}: invalid_argument INVALID_JSON`);
      else {
        expect(outcome).toMatch(
          /: unauthenticated (MISSING|INVALID|MALFORMED)_(API_KEY|CREDENTIAL|AUTHORIZATION)$/,
        );
      }
    }
  },
);

test("the cases cover every method and every kind of credential", () => {
  expect(methods.length).toBeGreaterThan(20);
  const kinds = cases.map(([, method, listener]) => credentialOf(method, listener));
  expect(new Set(kinds)).toEqual(
    new Set(["instance", "api_key", "service", "session", "preview_session", "none", undefined]),
  );
});
