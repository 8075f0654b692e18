import { foldCase } from "../base/fold-case.ts";
import { readKeyQuery } from "../base/plain-text.ts";
import { mayHoldSecret } from "../log/redaction.ts";
import type { KeyMatch } from "./key-store.ts";

/**
 * What the text of a search fits; undefined if it is empty and so fits every key. People paste
 * whole keys, so nothing that may be a key's secret is part of the result: it goes to the store and
 * into page tokens. Throws INVALID_ARGUMENT, without the text.
 */
export function keyMatchOf(query: string, keyPrefix: string): KeyMatch | undefined {
  const text = readKeyQuery(query, "query");
  if (text === "") return undefined;
  const pasted = fullValue.exec(text)?.groups?.id;
  if (pasted !== undefined) return { idStart: pasted.toLowerCase() };
  if (mayHoldSecret(text)) return {};
  const idStart = idStartOf(text.toLowerCase(), `${keyPrefix}_`);
  return {
    labelPart: foldCase(text),
    ...(idStart !== undefined && { idStart }),
    ...(ellipsis.test(text) && { redactedPart: text.replace(ellipsis, "…") }),
  };
}

/** A full value with any prefix, or as much of it as follows the id. */
const fullValue = /_(?<id>[0-9a-hjkmnp-tv-z]{24})\./i;
const ellipsis = /…|\.\.\./;

function idStartOf(text: string, prefix: string): string | undefined {
  const start = text.startsWith(prefix) ? text.slice(prefix.length) : text;
  return /^[0-9a-hjkmnp-tv-z]{1,24}$/.test(start) ? start : undefined;
}
