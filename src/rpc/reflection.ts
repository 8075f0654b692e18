import {
  create,
  type DescEnum,
  type DescExtension,
  type DescFile,
  type DescMessage,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "#gen/google/rpc/error_details_pb.ts";
import { file_google_rpc_status } from "#gen/google/rpc/status_pb.ts";
import {
  type ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from "#gen/grpc/reflection/v1/reflection_pb.ts";
import {
  type ServerReflection as ServerReflectionV1Alpha,
  ServerReflectionRequestSchema as V1AlphaRequestSchema,
  ServerReflectionResponseSchema as V1AlphaResponseSchema,
} from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";

/**
 * Implements gRPC server reflection for the given services, under both names that clients use. Each
 * question gets one answer, in order. An unknown name or number gets an error response with
 * NOT_FOUND, and the stream goes on. A file is sent with the files that it imports: an imported
 * file is sent once on each stream, the requested file every time. Source:
 * grpc/reflection/v1/reflection.proto. Enum values, fields, oneofs and methods are symbols too.
 * The details of a refusal are known as well, so that clients can show them.
 */
export function createReflection(services: readonly DescService[]): {
  v1: ServiceMethods<typeof ServerReflection>;
  v1alpha: ServiceMethods<typeof ServerReflectionV1Alpha>;
} {
  const index = createSymbolIndex(services);
  return {
    v1: {
      async *serverReflectionInfo(requests) {
        const sent = new Set<string>();
        for await (const request of requests) yield answer(index, request, sent);
      },
    },
    v1alpha: {
      // The two versions differ only in their package, so their messages have the same bytes.
      async *serverReflectionInfo(requests) {
        const sent = new Set<string>();
        for await (const old of requests) {
          const request = fromBinary(ServerReflectionRequestSchema, toBinary(V1AlphaRequestSchema, old));
          const response = toBinary(ServerReflectionResponseSchema, answer(index, request, sent));
          yield fromBinary(V1AlphaResponseSchema, response);
        }
      },
    },
  };
}

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

function answer(
  index: SymbolIndex,
  request: ServerReflectionRequest,
  sent: Set<string>,
): ServerReflectionResponse {
  return create(ServerReflectionResponseSchema, {
    validHost: request.host,
    originalRequest: request,
    messageResponse: lookUp(index, request.messageRequest, sent),
  });
}

function lookUp(
  index: SymbolIndex,
  asked: ServerReflectionRequest["messageRequest"],
  sent: Set<string>,
): Answer {
  switch (asked.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: index.serviceNames.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return fileAnswer(index.fileByName(asked.value), sent);
    case "fileContainingSymbol":
      return fileAnswer(index.fileOfSymbol(asked.value), sent);
    case "fileContainingExtension":
      return fileAnswer(index.fileOfExtension(asked.value.containingType, asked.value.extensionNumber), sent);
    case "allExtensionNumbersOfType": {
      const numbers = index.extensionNumbersOf(asked.value);
      if (!numbers) return notFound;
      return {
        case: "allExtensionNumbersResponse",
        value: { baseTypeName: asked.value, extensionNumber: [...numbers] },
      };
    }
    default:
      return errorAnswer(Code.InvalidArgument, "The request asks for nothing that this version knows.");
  }
}

function fileAnswer(file: DescFile | undefined, sent: Set<string>): Answer {
  if (!file) return notFound;
  const protos = [file, ...newDependencies(file, sent)].map((each) => each.proto);
  return {
    case: "fileDescriptorResponse",
    value: { fileDescriptorProto: protos.map((proto) => toBinary(FileDescriptorProtoSchema, proto)) },
  };
}

/**
 * Returns the files that the file imports, directly or not, and that this stream has not sent yet.
 * Marks them as sent.
 */
function newDependencies(file: DescFile, sent: Set<string>): DescFile[] {
  sent.add(file.proto.name);
  return file.dependencies.flatMap((dependency) =>
    sent.has(dependency.proto.name) ? [] : [dependency, ...newDependencies(dependency, sent)],
  );
}

const notFound = errorAnswer(Code.NotFound, "This server knows nothing of this name or number.");

function errorAnswer(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

/** The declarations in the files of some services, by name. Full names have no leading dot. */
interface SymbolIndex {
  /** Full names of the services, sorted. */
  readonly serviceNames: readonly string[];
  /**
   * Returns the file with this path, for example `keyrun/v1/run_service.proto`; undefined if there
   * is none.
   */
  fileByName(name: string): DescFile | undefined;
  /**
   * Returns the file that declares this service, method, message, field, oneof, enum, enum value or
   * extension; undefined if there is none.
   */
  fileOfSymbol(fullName: string): DescFile | undefined;
  /**
   * Returns the file that declares the extension with this number of this message; undefined if
   * there is none.
   */
  fileOfExtension(messageName: string, number: number): DescFile | undefined;
  /**
   * Returns the numbers of all known extensions of this message, ascending; undefined if the
   * message is unknown.
   */
  extensionNumbersOf(messageName: string): readonly number[] | undefined;
}

/** What a refusal carries: a status, and the details in it. No service's file imports them. */
const refusalFiles = [file_google_rpc_status, file_google_rpc_error_details];

/** Indexes the files that declare these services and refusals, and all files that those import. */
function createSymbolIndex(services: readonly DescService[]): SymbolIndex {
  const files = new Map<string, DescFile>();
  for (const file of [...services.map((service) => service.file), ...refusalFiles]) addFile(files, file);

  const symbols = new Map<string, DescFile>();
  const extensions = new Map<string, Map<number, DescFile>>();
  for (const file of files.values()) {
    for (const type of nestedTypes(file)) {
      for (const name of symbolsOf(type)) symbols.set(name, file);
      const extended = type.kind === "extension" ? type.extendee.typeName : undefined;
      if (type.kind === "message" && !extensions.has(type.typeName)) extensions.set(type.typeName, new Map());
      if (type.kind === "extension" && extended !== undefined) {
        const known = extensions.get(extended) ?? new Map<number, DescFile>();
        extensions.set(extended, known.set(type.number, file));
      }
    }
  }

  return {
    serviceNames: services.map((service) => service.typeName).sort(),
    fileByName: (name) => files.get(name),
    fileOfSymbol: (fullName) => symbols.get(fullName),
    fileOfExtension: (messageName, number) => extensions.get(messageName)?.get(number),
    extensionNumbersOf(messageName) {
      const known = extensions.get(messageName);
      return known && [...known.keys()].sort((a, b) => a - b);
    },
  };
}

function addFile(files: Map<string, DescFile>, file: DescFile): void {
  if (files.has(file.proto.name)) return;
  files.set(file.proto.name, file);
  for (const dependency of file.dependencies) addFile(files, dependency);
}

function symbolsOf(type: DescMessage | DescEnum | DescExtension | DescService): string[] {
  switch (type.kind) {
    case "message":
      return [type.typeName, ...membersOf(type.typeName, [...type.fields, ...type.oneofs])];
    case "service":
      return [type.typeName, ...membersOf(type.typeName, type.methods)];
    case "enum":
      // The values of an enum are its siblings, not its children (C++ scoping, see
      // descriptor.proto).
      return [type.typeName, ...membersOf(scopeOf(type), type.values)];
    case "extension":
      return [type.typeName];
  }
}

function membersOf(scope: string, members: readonly { readonly name: string }[]): string[] {
  return members.map((member) => (scope === "" ? member.name : `${scope}.${member.name}`));
}

function scopeOf(type: DescEnum): string {
  return type.parent?.typeName ?? type.file.proto.package;
}
