import { create, type DescMethod, fromJson, toJson } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { lateRpcs } from "../../../web/api/late-rpcs.ts";
import { type Rpc, rpcs } from "../../../web/api/rpcs.ts";
import { messageOf } from "../../harness/message-arbitrary.ts";

const methods: ReadonlyMap<string, DescMethod> = new Map(
  [AppService, AuditService, KeyService, SessionService, TeamService].flatMap((service) =>
    service.methods.map((method) => [`/${service.typeName}/${method.name}`, method] as const),
  ),
);

describe.each(Object.values<Rpc<object, unknown>>({ ...rpcs, ...lateRpcs }))("$path", ({ path, read }) => {
  const method = methods.get(path)!;

  test("reads every answer as the generated code does", () => {
    fc.assert(
      fc.property(messageOf(method.output), (message) => {
        const json = toJson(method.output, message);
        // An enum that this page does not know has a number, and that is kept.
        expect(read(JSON.parse(JSON.stringify(json)))).toEqual(fromJson(method.output, json));
      }),
      { numRuns: 200 },
    );
  });

  test("reads an answer without fields as the defaults, and ignores fields that it does not know", () => {
    expect(read({ invented: { later: [1] } })).toEqual(create(method.output));
  });
});
