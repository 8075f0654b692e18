import {
  create,
  type DescFile,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
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
import type { ServiceMethods } from "../auth/service-methods.ts";
import { createSymbolIndex, type SymbolIndex } from "./symbol-index.ts";

/**
 * Implements gRPC server reflection for the given services, under both names that clients use. Each
 * question gets one answer, in order. An unknown name or number gets an error response with
 * NOT_FOUND, and the stream goes on. A file is sent with the files that it imports: an imported
 * file is sent once on each stream, the requested file every time. Source:
 * grpc/reflection/v1/reflection.proto. Enum values, fields, oneofs and methods are symbols too.
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
