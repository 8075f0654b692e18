import type { DescMethod } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { rpcs } from "../../../web/api/rpcs.ts";

const methods: ReadonlyMap<string, DescMethod> = new Map(
  [AppService, AuditService, KeyService, SessionService, TeamService].flatMap((service) =>
    service.methods.map((method) => [`/${service.typeName}/${method.name}`, method] as const),
  ),
);

test.each(Object.entries(rpcs))("%s is an RPC of the protos, under its own name", (name, { path }) => {
  expect(methods.get(path)?.localName).toBe(name);
});
