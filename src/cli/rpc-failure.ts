import { CallRefused, type CallUnanswered } from "./call-errors.ts";
import { CommandFailure } from "./command-failure.ts";
import { rpcMsMax } from "./rpc-client.ts";
import { tlsFileNames, tlsTrouble } from "./tls-trouble.ts";

/** Turns a failed call into a sentence that says what to do. Keyrun's refusals keep their words. */
export function failureFrom(error: CallRefused | CallUnanswered, address: string): CommandFailure {
  const sentence = error instanceof CallRefused ? refusedWords(error, address) : wordsFor(error.why, address);
  return new CommandFailure(sentence, { cause: error });
}

function refusedWords({ code, reason, message }: CallRefused, address: string): string {
  if (code === "unauthenticated") return tokenRefused(address);
  // Keyrun's refusals carry a reason. An error without one is another server's.
  if (reason !== undefined) return message;
  return wordsFor(code === "deadline_exceeded" ? "LATE" : "STRANGE", address);
}

function wordsFor(why: string, address: string): string {
  if (notThere.has(why)) return `Keyrun is not running at ${address}: start it with \`npm start\`.`;
  const tls = tlsTrouble(why);
  if (tls !== undefined) return `The TLS connection to ${address} failed (${why}): ${tls}`;
  if (why === "LATE") {
    return `Keyrun did not answer at ${address} within ${rpcMsMax / 1000} s: try again, or see its log.`;
  }
  return `What answers at ${address} is not Keyrun's internal listener, or it hung up: check KEYRUN_GRPC_HOST and KEYRUN_GRPC_PORT. If the listener uses TLS, set ${tlsFileNames} for this command as for the server.`;
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
