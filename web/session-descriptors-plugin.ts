import type { DescMessage, DescService } from "@bufbuild/protobuf";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { Plugin } from "vite";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { AppService } from "../gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "../gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "../gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "../gen/keyrun/v1/team_service_pb.ts";
import { credentialOf } from "../src/auth/policy.ts";

/**
 * Cuts from the descriptors in `gen/` what the screen can't use, for they weigh: the methods that the policy allows
 * to no session, and what is inside of messages that neither the methods left nor refusals carry.
 */
export function sessionDescriptors(): Plugin {
  return {
    name: "session-descriptors",
    apply: "build",
    transform: {
      filter: { id: /\/gen\/.*_pb\.ts$/ },
      handler: (code) => ({ code: cutDescriptors(code), map: null }),
    },
  };
}

/** The generated code of a file of protos, with its descriptor cut. */
export function cutDescriptors(code: string): string {
  return code.replace(/(?<=fileDesc\(")[^"]+/, cut);
}

function cut(base64: string): string {
  const file = fromBinary(FileDescriptorProtoSchema, base64Decode(base64));
  return base64Encode(toBinary(FileDescriptorProtoSchema, withoutUnused(file)), "std_raw");
}

function withoutUnused(file: FileDescriptorProto): FileDescriptorProto {
  for (const service of file.service) {
    service.method = service.method.filter(({ name }) =>
      methods.has(`${file.package}.${service.name}.${name}`),
    );
  }
  for (const message of file.messageType) {
    // The message itself stays, empty: generated code names messages by their place in the file.
    if (messages.has(`${file.package}.${message.name}`)) continue;
    for (const emptied of [message, ...message.nestedType])
      Object.assign(emptied, { field: [], oneofDecl: [] });
  }
  return file;
}

const services: readonly DescService[] = [AppService, KeyService, SessionService, TeamService];
const kept = services
  .flatMap((service) => service.methods)
  .filter((method) => credentialOf(method, "public")?.endsWith("session"));
const methods = new Set(kept.map(({ parent, name }) => `${parent.typeName}.${name}`));
const messages = new Set<string>();
for (const message of [ErrorInfoSchema, ...kept.flatMap(({ input, output }) => [input, output])])
  keep(message);

function keep(message: DescMessage): void {
  if (messages.has(message.typeName)) return;
  messages.add(message.typeName);
  for (const field of message.fields) if (field.message !== undefined) keep(field.message);
}
