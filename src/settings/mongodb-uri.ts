/**
 * The form of KEYRUN_MONGODB_URI. The driver takes many options, and its errors quote a URI that it
 * can't read. So the URI is checked here first, with problems that quote nothing of it.
 */

/**
 * What is wrong with the URI, as the rest of a sentence that begins with the setting's name;
 * undefined if it can be used. The words quote nothing of the URI but names of known options.
 */
export function mongodbUriProblem(uri: string): string | undefined {
  const [scheme] = /^mongodb(?:\+srv)?:\/\//.exec(uri) ?? [];
  if (scheme === undefined) return "must be an address that begins with mongodb:// or mongodb+srv://";
  // A raw @ stands once, after user and password. A raw one in a password would end it, and what
  // comes then would be taken for a host.
  const [place = "", login = "", ...more] = uri.slice(scheme.length).split("@").reverse();
  const hosts = (place.split(/[/?]/, 1)[0] ?? "").split(",");
  if (more.length > 0 || !wellEncoded.test(login) || !hosts.every((host) => hostForm.test(host))) {
    return "can't be read. It should look like mongodb://user:password@host:27017/keyrun, with the special characters of the password percent-encoded: %2F for /, %40 for @, %3A for : and %25 for %";
  }
  for (const [name, value] of mongodbOptions(uri)) {
    const known = [...kept, ...fixed.keys()].find((each) => each.toLowerCase() === name);
    if (known === undefined) return unknownOption;
    const needed = fixed.get(known);
    if (needed !== undefined && value.toLowerCase() !== needed) return fixedProblem(known, needed);
  }
  return undefined;
}

/** The options of a URI that has no problem, by their names in small letters. */
export function mongodbOptions(uri: string): ReadonlyMap<string, string> {
  const query = uri.includes("?") ? uri.slice(uri.indexOf("?") + 1) : "";
  return new Map([...new URLSearchParams(query)].map(([name, value]) => [name.toLowerCase(), value]));
}

/** A name, an address with brackets around IPv6, or the encoded path of a socket; then a port. */
const hostForm = /^(?:\[[0-9a-f:.]+\]|[^:[\]#\s]+)(?::\d{1,5})?$/i;

/** A user and a password without a character that would end them. */
const wellEncoded = /^(?:[^:/?#[\]@%]|%[0-9a-f]{2})*(?::(?:[^:/?#[\]@%]|%[0-9a-f]{2})*)?$/i;

/** The options that an operator may set: none of them changes what Keyrun promises. */
const kept = [
  "appName",
  "authMechanism",
  "authMechanismProperties",
  "authSource",
  "compressors",
  "connectTimeoutMS",
  "directConnection",
  "heartbeatFrequencyMS",
  "loadBalanced",
  "localThresholdMS",
  "maxConnecting",
  "maxIdleTimeMS",
  "maxPoolSize",
  "minPoolSize",
  "proxyHost",
  "proxyPassword",
  "proxyPort",
  "proxyUsername",
  "replicaSet",
  "retryReads",
  "retryWrites",
  "serverMonitoringMode",
  "serverSelectionTimeoutMS",
  "socketTimeoutMS",
  "srvMaxHosts",
  "srvServiceName",
  "ssl",
  "tls",
  "tlsAllowInvalidCertificates",
  "tlsAllowInvalidHostnames",
  "tlsCAFile",
  "tlsCertificateKeyFile",
  "tlsCertificateKeyFilePassword",
  "tlsCRLFile",
  "tlsInsecure",
  "waitQueueTimeoutMS",
  "zlibCompressionLevel",
];

/**
 * The options on which a promise depends, such as that a revocation is never lost, with the one
 * value that they may have; "" is none.
 */
const fixed: ReadonlyMap<string, string> = new Map([
  ["w", "majority"],
  ["journal", "true"],
  ["j", "true"],
  ["readConcernLevel", "majority"],
  ["readPreference", "primary"],
  ["wTimeoutMS", ""],
  ["wtimeout", ""],
  ["fsync", ""],
  ["readPreferenceTags", ""],
  ["maxStalenessSeconds", ""],
  ["timeoutMS", ""],
]);

/** The option is not named: it may be a part of a password. */
const unknownOption = "has an option that Keyrun does not take: docs/operations.md lists those that it takes";

function fixedProblem(name: string, needed: string): string {
  const instead = needed === "" ? "remove it" : `remove it, or set it to ${needed}`;
  return `has the option ${name}, which would break a promise of Keyrun's, such as that a revocation is never lost: ${instead}`;
}
