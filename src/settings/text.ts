/** The forms that the text of a setting can have. */

import { isIP } from "node:net";
import { z } from "zod";
import { type PlanQuotas, planNames, quotaPeriods, quotaRequestsMax } from "./config.ts";
import { isLoopbackHost, readHostAndPort, writeHostAndPort } from "./host.ts";

/**
 * A setting that `parse` reads, or else refused with "must be `what`". The message never contains
 * the text: people do paste a secret into the wrong setting.
 */
function text<T>(what: string, parse: (text: string) => T | undefined) {
  return z.string().transform((value, context) => {
    const parsed = value.length <= textCharactersMax ? parse(value) : undefined;
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: "custom", message: `must be ${what}` });
    return z.NEVER;
  });
}

const textCharactersMax = 8_192;

/**
 * A setting that stays as written, or is refused with what `problemOf` says: the rest of a sentence
 * that begins with the setting's name, and holds nothing of the text.
 */
export function checked(problemOf: (text: string) => string | undefined) {
  return z
    .string()
    .max(textCharactersMax)
    .superRefine((value, context) => {
      const message = problemOf(value);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    });
}

/** A whole number in decimal digits, from `min` to `max`, both included. */
export function wholeNumber({ min, max }: { min: number; max: number }) {
  return text(`a whole number from ${min} to ${max}`, (digits) => {
    const number = /^\d{1,15}$/.test(digits) ? Number(digits) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  });
}

export function oneOf<const Name extends string>(names: readonly Name[]) {
  return text(`one of ${names.join(", ")}`, (value) => names.find((name) => name === value));
}

export function flag() {
  return text("true or false", (value) =>
    value === "true" || value === "false" ? value === "true" : undefined,
  );
}

/** The address that a listener binds to. */
export function host() {
  return text("an IP address or a host name", (value) =>
    isIP(value) !== 0 || (value.length <= 253 && hostNameForm.test(value)) ? value : undefined,
  );
}

/**
 * The address of a listener as others reach it. The port stands behind the last colon, also where
 * an IPv6 host has no brackets, as Kubernetes writes `$(POD_IP):8081`. The value has them.
 */
export function hostAndPort() {
  const shape = host();
  return text("a host and a port, with a colon between them", (value) => {
    const at = readHostAndPort(value);
    const isPort = /:[1-9]\d{0,4}$/.test(value) && at.port <= 65_535;
    const isHost = shape.safeParse(at.host).success && (isIP(at.host) === 6 || !value.startsWith("["));
    return isPort && isHost ? writeHostAndPort(at) : undefined;
  });
}

const hostNameForm = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;

/** Scheme, host and port, as browsers write an origin. Plain HTTP only for a loopback host. */
export function origin() {
  const what =
    "an https:// address of scheme, host and port alone, without user and password; http:// only for a loopback host";
  return text(what, (value) => {
    const url = webUrl(value);
    return url?.pathname === "/" ? url.origin : undefined;
  });
}

/** An OpenID Connect issuer. The text stays as written, to equal what the issuer calls itself. */
export function issuer() {
  const what =
    "an https:// address without user, password, query and fragment; http:// only for a loopback host";
  return text(what, (value) => webUrl(value) && value);
}

function webUrl(value: string): URL | undefined {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  // What stands before an @ is a password, or the part of one that is read as host and port.
  if (!url || /[@?#]/.test(value)) return undefined;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname))
    ? url
    : undefined;
}

/** The address of a Redis server. The text stays as written. */
export function redisAddress() {
  const what =
    "an address like redis://host:6379, or rediss:// with TLS, of one server, with the special characters of the password percent-encoded: %2F for /, %40 for @, %25 for %";
  return text(what, (value) => {
    const url = /^rediss?:\/\/\S+$/.test(value) && URL.canParse(value) ? new URL(value) : undefined;
    if (!url?.hostname || !/^(\/\d{0,5})?$/.test(url.pathname) || url.search || url.hash) return undefined;
    // The client decodes both, and fails over what is no escape.
    return [url.username, url.password].every(isPercentEncoded) ? value : undefined;
  });
}

function isPercentEncoded(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** The name of a header. The text stays as written, for messages and documents. */
export function keyHeader() {
  const what = "a header's name, like X-API-Key, and none that Keyrun, gRPC or the connection reads";
  return matching(new RegExp(`^(?!(?:${takenHeaders})$)[!#$%&'*+.^_\`|~0-9a-z-]{1,64}$`, "i"), what);
}

const takenHeaders = [
  "authorization|cookie|host|expect|prefer|origin|forwarded|traceparent|tracestate|idempotency-key|x-request-id",
  "connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings",
  "accept(?:-.*)?|(?:connect|content|grpc|keyrun|proxy|sec|x-forwarded|x-keyrun)-.*|.*-bin",
].join("|");

export function filePath() {
  return text("the path of a file or folder", (value) => (value.includes("\0") ? undefined : value));
}

export function matching(form: RegExp, what: string) {
  return text(what, (value) => (form.test(value) ? value : undefined));
}

/** Comma-separated `name=number` pairs without repeats. A missing name keeps its default. */
export function numbersByName<Name extends string>(
  defaults: Readonly<Record<Name, number>>,
  { min, max }: { min: number; max: number },
) {
  const names = Object.keys(defaults);
  const what = `pairs like ${names[0]}=${min}, comma-separated, of ${names.join(", ")} and a whole number from ${min} to ${max}`;
  const number = wholeNumber({ min, max });
  return text(what, (value) => {
    const given = pairsIn(value, names, (digits) => number.safeParse(digits).data);
    return given && Object.freeze({ ...defaults, ...given });
  });
}

/** Comma-separated pairs like `free=1000/day`, each plan at most once. */
export function planQuotas() {
  const what = `pairs like free=1000/day, comma-separated, of ${planNames.join(", ")}, a whole number from 1 to ${quotaRequestsMax}, and /day or /month`;
  const number = wholeNumber({ min: 1, max: quotaRequestsMax });
  return text<PlanQuotas>(what, (value) =>
    pairsIn(value, planNames, (quota) => {
      const [, digits = "", unit] = /^(\d+)\/(\w+)$/.exec(quota) ?? [];
      const [requests, period] = [
        number.safeParse(digits).data,
        quotaPeriods.find((known) => known === unit),
      ];
      return requests && period && Object.freeze({ requests, period });
    }),
  );
}

/** The values of comma-separated `name=value` pairs; undefined if one is wrong or there twice. */
function pairsIn<Value>(
  text: string,
  names: readonly string[],
  read: (text: string) => Value | undefined,
): Readonly<Record<string, Value>> | undefined {
  const given = new Map<string, Value>();
  for (const pair of text.split(",")) {
    const [name = "", value = "", ...more] = pair.split("=");
    const parsed = read(value);
    if (!names.includes(name) || given.has(name) || more.length > 0 || parsed === undefined) return undefined;
    given.set(name, parsed);
  }
  return Object.freeze(Object.fromEntries(given));
}

/**
 * Base64url texts, newest first, separated by commas or by the ends of lines, each of at least
 * `bytesMin` bytes.
 */
export function secretList({ bytesMin, countMax }: { bytesMin: number; countMax: number }) {
  const what = `1 to ${countMax} base64url texts, separated by commas or lines, each of ${bytesMin} bytes or more; \`openssl rand -hex 32\` makes one`;
  return text(what, (value) => {
    const secrets = splitSecrets(value).map(({ text: part }) => {
      const wellFormed = base64urlForm.test(part) && part.replace(/=+$/, "").length % 4 !== 1;
      return wellFormed ? Buffer.from(part, "base64url") : Buffer.alloc(0);
    });
    const good = secrets.length <= countMax && secrets.every((secret) => secret.length >= bytesMin);
    return good ? Object.freeze(secrets) : undefined;
  });
}

/**
 * The texts of a list that is separated by commas or by the ends of lines. The mark stands as one
 * more part before a text that was added and never promoted.
 */
export function splitSecrets(value: string) {
  const parts = value.trim().split(/\s*[,\n]\s*/);
  const texts = parts.map((text, place) => ({ text, isUnpromoted: parts[place - 1] === unpromotedMark }));
  return texts.filter(({ text }, place) => text !== unpromotedMark || place === parts.length - 1);
}

export const unpromotedMark = "# not promoted yet:";

const base64urlForm = /^[A-Za-z0-9_-]+={0,2}$/;
