/**
 * Why a call of another server failed, in one short sentence for the operator: an issuer, MongoDB,
 * Redis or an app. Libraries wrap what the system said, often twice, in words like "fetch failed".
 */

import { bounds } from "../bounds.ts";
import { Refusal } from "../refusal/refusal.ts";

/**
 * What the system or a library said first, such as `connect ECONNREFUSED 127.0.0.1:27017` or
 * `self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)`, with what helps where TLS does not trust
 * the server. One line, of at most `causeCharactersMax` characters. Of several failures, each is
 * said once. It follows causes that are errors: other values may hold what a server has sent.
 */
export function innermostCause(thrown: unknown): string {
  const words = [...new Set(innermostErrors(thrown).map(wordsOf))].join("; ");
  return words.slice(0, bounds.causeCharactersMax);
}

/** Causes may form a circle, so their depth has a bound. */
function innermostErrors(thrown: unknown, levelsLeft: number = bounds.causeLevelsMax): readonly unknown[] {
  if (!(thrown instanceof Error) || levelsLeft === 0) return [thrown];
  if (thrown.cause instanceof Error) return innermostErrors(thrown.cause, levelsLeft - 1);
  if (thrown instanceof AggregateError && thrown.errors.length > 0) {
    return thrown.errors.flatMap((error) => innermostErrors(error, levelsLeft - 1));
  }
  return [thrown];
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown failure";
  // The cause of an app's refusal is a sentence of Keyrun's own.
  if (error instanceof Refusal && typeof error.cause === "string") return error.cause;
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  const said = messageOf(error) || code || error.name;
  const named = code === undefined || said.includes(code) ? said : `${said} (${code})`;
  const help = code === undefined ? undefined : helpOf(code);
  return help === undefined ? named : `${named}: ${help}`;
}

/**
 * OpenSSL's own messages have numbers, functions and files around the words. Node's end with an
 * option of Node's, which changes nothing here: Keyrun trusts the system's authorities.
 */
function messageOf(error: Error): string {
  const isOfOpenssl = /^[0-9A-F]+:error:/.test(error.message) || /\bEPROTO\b/.test(error.message);
  const reason = "reason" in error && typeof error.reason === "string" ? error.reason : "";
  const [line = ""] = error.message.split(/\n|; if the root CA is installed locally/, 1);
  return isOfOpenssl && reason !== "" ? reason : line;
}

function helpOf(code: string): string | undefined {
  if (untrusted.has(code)) return "NODE_EXTRA_CA_CERTS can name a file with the authority to trust";
  if (code.endsWith("MODULE_NOT_FOUND")) return "the package has to be installed beside Keyrun";
  return code === "ERR_SSL_WRONG_VERSION_NUMBER" ? "the server there speaks no TLS" : undefined;
}

const untrusted: ReadonlySet<string> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
