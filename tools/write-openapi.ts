// A part of `npm run generate`: writes gen/openapi.json, which src/rest/openapi.ts fills in.
import { writeFileSync } from "node:fs";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { createKeyrunOpenApi } from "./openapi/keyrun-openapi.ts";

const template = createKeyrunOpenApi({
  services: [RunService, KeyService],
  facts: {
    free: "{{free}}",
    pro: "{{pro}}",
    team: "{{team}}",
    enterprise: "{{enterprise}}",
    version: "{{version}}",
    keyPrefix: "{{keyPrefix}}",
    bodyBytesMax: "{{bodyBytesMax}}",
    reportBytesMax: "{{reportBytesMax}}",
    textCharactersMax: "{{textCharactersMax}}",
  },
});
writeFileSync(new URL("../gen/openapi.json", import.meta.url), `${JSON.stringify(template, undefined, 2)}\n`);
