import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  VerifyKeyRequestSchema,
  VerifyKeyResponse_Verdict,
  VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { answerGrpc } from "../bare-grpc.ts";
import { announce } from "../subject.ts";

// The least that answers VerifyKey: it reads the key and finds every one valid.
const server = createServer();
server.on("stream", (stream) => {
  answerGrpc(stream, (message) => {
    const { value } = fromBinary(VerifyKeyRequestSchema, message);
    const verdict = VerifyKeyResponse_Verdict.VALID;
    const facts = { verdict, keyId: value.slice(4, 28), teamId: "demo", plan: Plan.FREE };
    return toBinary(VerifyKeyResponseSchema, create(VerifyKeyResponseSchema, facts));
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
