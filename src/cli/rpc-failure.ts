import { Code, type ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { CommandFailure } from "./command-failure.ts";
import { rpcMsMax } from "./connection.ts";
import { tlsFileNames, tlsTrouble } from "./tls-trouble.ts";

/** Turns a failed call into a sentence that says what to do. Keyrun's refusals keep their words. */
export function failureFrom(error: ConnectError, address: string): CommandFailure {
  const say = (sentence: string) => new CommandFailure(sentence, { cause: error });
  // Keyrun's refusals carry a reason. Errors without one come from the network or another server.
  if (error.findDetails(ErrorInfoSchema).length > 0) {
    return say(error.code === Code.Unauthenticated ? tokenRefused(address) : error.rawMessage);
  }
  const network = causeCode(error);
  if (notThere.has(network)) return say(`Keyrun is not running at ${address}: start it with \`npm start\`.`);
  const tls = tlsTrouble(network);
  if (tls !== undefined) return say(`The TLS connection to ${address} failed (${network}): ${tls}`);
  if (error.code === Code.Unauthenticated) return say(tokenRefused(address));
  if (error.code === Code.DeadlineExceeded) {
    return say(`Keyrun did not answer at ${address} within ${rpcMsMax / 1000} s: try again, or see its log.`);
  }
  return say(
    `What answers at ${address} is not Keyrun's internal listener, or it hung up: check KEYRUN_GRPC_HOST and KEYRUN_GRPC_PORT. If the listener uses TLS, set ${tlsFileNames} for this command as for the server.`,
  );
}

const notThere = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
]);

function tokenRefused(address: string): string {
  return `Keyrun at ${address} refused the service token: use its KEYRUN_SERVICE_TOKEN, or the KEYRUN_DATA_DIR that its token is in.`;
}

function causeCode(error: ConnectError): string {
  const { cause } = error;
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "";
}
