// What a caller prefers (RFC 7240): to be answered before its run ends, and how long to wait first.

/** The preferences that Keyrun knows. */
export interface Preferences {
  readonly respondAsync: boolean;
  /** Undefined if the caller names none. */
  readonly waitSeconds: number | undefined;
}

/**
 * Reads the value of `Prefer`, with all of its headers joined. Names count in any case, and the
 * first of a name counts. What is unknown or can't be read is ignored, with its parameters.
 */
export function readPreferences(value: string): Preferences {
  const found = new Map<string, string>();
  for (const [member] of value.matchAll(members)) {
    const [, name, token, quoted] = preference.exec(member) ?? [];
    if (name === undefined) continue;
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, token ?? quoted?.replace(/\\(.)/g, "$1") ?? "");
  }
  const wait = found.get("wait");
  return {
    // It takes no value; an empty one is none.
    respondAsync: found.get("respond-async") === "",
    waitSeconds: wait !== undefined && wholeSeconds.test(wait) ? Number(wait) : undefined,
  };
}

/** The members of a list: between commas that are not in a quoted string. */
const members = /(?:"(?:[^"\\]|\\.)*"|[^,"])+/g;
/** A name, perhaps with a value, before its parameters. */
const preference =
  /^[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*(?:=[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|"((?:[^"\\]|\\.)*)")?)?[ \t]*(?:;.*)?$/s;
const wholeSeconds = /^[0-9]{1,9}$/;
