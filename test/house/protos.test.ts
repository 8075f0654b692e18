import { readdirSync } from "node:fs";
import type { DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { getOption, hasOption } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { beforeAll, expect, test } from "vitest";
import { http } from "#gen/google/api/annotations_pb.ts";
import { credentialOf } from "#src/auth/policy.ts";

const folder = new URL("../../gen/keyrun/v1/", import.meta.url);
const services: DescService[] = [];
const messages: DescMessage[] = [];

beforeAll(async () => {
  for (const name of readdirSync(folder)) {
    const exported = Object.values(await import(new URL(name, folder).href));
    for (const desc of exported) {
      if (isDesc(desc, "service")) services.push(desc as DescService);
      if (isDesc(desc, "message")) messages.push(desc as DescMessage);
    }
  }
});

function isDesc(value: unknown, kind: string): boolean {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === kind;
}

const fields = () => messages.flatMap((message) => message.fields);
const methods = () => services.flatMap((service) => service.methods);
const nameOf = (field: DescField) => `${field.parent.typeName}.${field.name}`;
const isRedacted = (field: DescField) => field.proto.options?.debugRedact === true;

/** Names of fields that carry a secret, and names that only look like it. */
const secretNames = /(^|_)(value|secret|password|token|credential|code)$/;
const publicNames = ["redacted_value", "page_token", "next_page_token", "service_token"];

test("the test has read every descriptor", () => {
  expect(services.map(({ name }) => name).sort()).toEqual([
    "AppBackendService",
    "AppService",
    "AuditService",
    "FleetService",
    "KeyService",
    "RunService",
    "ServiceTokenService",
    "SessionService",
    "TeamService",
  ]);
  expect(messages.length).toBeGreaterThan(60);
});

test("every field that carries a secret is marked debug_redact, so that no message prints it", () => {
  const secret = fields().filter(({ name }) => secretNames.test(name) && !publicNames.includes(name));
  // The code of an error is the name of a reason.
  expect(secret.filter((field) => !isRedacted(field)).map(nameOf)).toEqual(["keyrun.v1.RunError.code"]);
  expect(fields().filter(isRedacted).map(nameOf).sort()).toEqual([
    "keyrun.v1.CreateKeyResponse.value",
    "keyrun.v1.CreateServiceTokenResponse.value",
    "keyrun.v1.CreateSignInLinkResponse.url",
    "keyrun.v1.HttpHeader.value",
    "keyrun.v1.ListKeysRequest.query",
    "keyrun.v1.RevokeLeakedKeyRequest.value",
    "keyrun.v1.RotateKeyResponse.value",
    "keyrun.v1.VerifyKeyRequest.value",
  ]);
});

test("no method can be called by GET, which would put its request into a URL", () => {
  const unsafe = methods().filter(
    ({ idempotency }) => idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS,
  );
  expect(unsafe.map(String)).toEqual([]);
});

test("only runs and reports of leaked keys are served over REST, and what changes something by POST", () => {
  const annotated = methods().filter((method) => hasOption(method, http));
  expect(annotated.map((method) => [method.name, getOption(method, http).pattern])).toEqual([
    ["RevokeLeakedKey", { case: "post", value: "/api/keys/revoke-leaked" }],
    ["RunApp", { case: "post", value: "/api/apps/{app_id}/run" }],
    ["StreamApp", { case: "post", value: "/api/apps/{app_id}/stream" }],
    ["GetRun", { case: "get", value: "/api/runs/{run_id}" }],
    ["ListRuns", { case: "get", value: "/api/runs" }],
    ["CancelRun", { case: "post", value: "/api/runs/{run_id}/cancel" }],
  ]);
});

test("every method that Keyrun serves has a row in the policy, and only those of RunService take an API key, and only RevokeLeakedKey nothing", () => {
  const served = methods().filter(({ parent }) => parent.name !== "AppBackendService");
  expect(served.length).toBeGreaterThan(20);
  const credentials = (method: DescMethod) =>
    (["public", "internal"] as const).flatMap((listener) => credentialOf(method, listener) ?? []);
  expect(served.filter((method) => credentials(method).length === 0).map(String)).toEqual([]);
  expect(served.filter((method) => credentials(method).includes("none")).map(({ name }) => name)).toEqual([
    "RevokeLeakedKey",
  ]);
  const byKey = served.filter((method) => credentials(method).includes("api_key"));
  expect(byKey.map(({ name }) => name)).toEqual([
    ...["RunApp", "StreamApp", "StartRun", "GetRun", "ListRuns", "CancelRun"],
  ]);
});
