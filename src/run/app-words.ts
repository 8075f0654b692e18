/**
 * What an app says to its caller in words: where they stand in its answer, and what is cut out of
 * them before the caller gets them.
 */

import { isUtf8 } from "node:buffer";
import type { HeaderRecord } from "../apps/app-store.ts";
import { misleadingCharacters, type Redact } from "../log/redaction.ts";
import { runBounds } from "./run-bounds.ts";

/** Makes an app's words fit for its caller; undefined where nothing is left to say. */
export type CleanWords = (words: string) => string | undefined;

/**
 * Cuts out of the words of an app what may be a key, and what may be a secret among the values of
 * the headers that the operator has given it: an app may well repeat what it was sent. A value may
 * be one where its header's name says so, or where it looks like one. It is cut out where it stands
 * by itself, so that no part of a word is lost. The words lose control characters, too, and are at
 * most `appWordsMax` characters long.
 */
export function createCleanWords(redact: Redact, headers: readonly HeaderRecord[]): CleanWords {
  const secrets = patternOf(headers.flatMap(secretsIn));
  return (words) => {
    const plain = words.replace(controls, " ");
    const cut = secrets === undefined ? plain : plain.replace(secrets, "[redacted]");
    return shortened(redact(cut).trim()) || undefined;
  };
}

/** A value whole, the credentials behind its scheme (`Bearer x`), and the values of cookies. */
function secretsIn({ name, value }: HeaderRecord): string[] {
  const parts = value.split(";").flatMap((part) => [part, part.slice(part.indexOf("=") + 1)]);
  const all = [value, value.slice(value.indexOf(" ") + 1), ...parts].map((part) => part.trim());
  const maySecret = saysSecret.test(name)
    ? (part: string) => part.length >= runBounds.namedSecretCharactersMin
    : (part: string) => part.length >= runBounds.otherSecretCharactersMin && looksMade.test(part);
  return all.filter(maySecret);
}

/** A header's name with a word that says so: `authorization`, `x-api-key`, `cookie`. */
const saysSecret =
  /(?:^|[-_.])(?:auth|authorization|[a-z]*(?:token|key|secret|cookie|password|credentials?|session|signature|jwt))(?:$|[-_.])/i;

/** Letters and digits, and no space: no word of a language. */
const looksMade = /^(?=\S*[a-z])(?=\S*[0-9])\S+$/i;

/** Finds each of the texts, also as a URL writes it, with no letter or digit beside it. */
function patternOf(texts: readonly string[]): RegExp | undefined {
  const forms = new Set(texts.flatMap((text) => [text, encodeURIComponent(text)]));
  if (forms.size === 0) return undefined;
  const longestFirst = [...forms].sort((one, other) => other.length - one.length);
  const any = longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${any})(?![\\p{L}\\p{N}])`, "gu");
}

function shortened(words: string): string {
  const { appWordsMax } = runBounds;
  if (words.length <= appWordsMax) return words;
  const characters = [...words];
  return characters.length <= appWordsMax ? words : `${characters.slice(0, appWordsMax - 1).join("")}…`;
}

const controls = new RegExp(`[\\u0000-\\u001f${misleadingCharacters}]+`, "g");

/**
 * The words in the body of an answer that says no: `{"error":{"message":"…"}}`, `{"message":"…"}`,
 * `{"detail":"…"}`, or FastAPI's `{"detail":[{"loc":["body","text"],"msg":"…"}]}`.
 */
export function wordsIn(body: Buffer): string | undefined {
  const answer = membersOf(jsonIn(body));
  const said = [membersOf(answer.error).message, answer.message, answer.detail];
  return said.find((words) => typeof words === "string") ?? faultsIn(answer.detail);
}

/** The faults that FastAPI finds in a request, each with the place of the field. */
function faultsIn(detail: unknown): string | undefined {
  if (!Array.isArray(detail)) return undefined;
  const faults = detail.slice(0, runBounds.appFaultsMax).flatMap((fault: unknown) => {
    const { loc, msg } = membersOf(fault);
    if (typeof msg !== "string") return [];
    const place = Array.isArray(loc) ? loc.filter((step) => /string|number/.test(typeof step)).join(".") : "";
    return [place === "" ? msg : `${place}: ${msg}`];
  });
  return faults.length === 0 ? undefined : faults.join("; ");
}

/** Whether the body is FastAPI's list of faults: it wants other fields than Keyrun sends. */
export function listsFaults(body: Buffer): boolean {
  return faultsIn(membersOf(jsonIn(body)).detail) !== undefined;
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function jsonIn(body: Buffer): unknown {
  try {
    return isUtf8(body) ? JSON.parse(body.toString()) : undefined;
  } catch {
    return undefined;
  }
}
