import type { RecordWithTtl } from "node:dns";
import { Resolver } from "node:dns/promises";
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { runBounds } from "./run-bounds.ts";

/**
 * Finds addresses as the system does: `/etc/hosts` first, then the name servers, with the search
 * domains. The servers are asked by c-ares, which works on sockets. `getaddrinfo` would hold one of
 * libuv's few threads for as long as a server is silent, and files, crypto and other look-ups would
 * wait for it. Other sources of `nsswitch.conf`, such as mDNS, are not asked.
 */
export function createResolveHost(paths: NameFilePaths = systemNameFiles): ResolveHost {
  const hosts = parsedFile(paths.hosts, parseHosts);
  const resolverSettings = parsedFile(paths.resolver, parseResolver);
  return async (host, signal) => {
    const name = host.toLowerCase();
    const relative = name.replace(/\.$/, "");
    const listed = hosts().get(relative) ?? (isLocalhost(relative) ? loopback : undefined);
    if (listed) return { addresses: listed, keptMs: undefined };
    const settings = resolverSettings();
    // A resolver of its own: it can be cancelled without the look-ups of other hosts.
    const resolver = new Resolver({ timeout: runBounds.hostLookupRetryMs });
    if (settings.servers.length > 0) resolver.setServers(settings.servers);
    const cancel = () => resolver.cancel();
    signal.addEventListener("abort", cancel);
    try {
      return await firstAnswer(resolver, candidatesOf(name, settings), signal);
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  };
}

/** An address of a host, in the form in which `node:net` takes it. */
export interface HostAddress {
  readonly address: string;
  readonly family: number;
}

export interface ResolvedHost {
  /** At least one. */
  readonly addresses: readonly HostAddress[];
  /** How long they stay true; undefined if the source does not say. */
  readonly keptMs: number | undefined;
}

/**
 * Finds the addresses of a host name. Rejects if there are none, and soon after the signal is
 * aborted.
 */
export type ResolveHost = (host: string, signal: AbortSignal) => Promise<ResolvedHost>;

/** The two files with which a system says how names become addresses. */
export interface NameFilePaths {
  readonly hosts: string;
  readonly resolver: string;
}

const systemNameFiles: NameFilePaths = { hosts: "/etc/hosts", resolver: "/etc/resolv.conf" };

/** `localhost` and all names below it are this machine (RFC 6761, section 6.3). */
function isLocalhost(name: string): boolean {
  return name === "localhost" || name.endsWith(".localhost");
}

const loopback: readonly HostAddress[] = [
  { address: "127.0.0.1", family: 4 },
  { address: "::1", family: 6 },
];

/** The names to ask for, in order: see `search` and `ndots` in `resolv.conf(5)`. */
function candidatesOf(name: string, { searchDomains, ndots }: ResolverSettings): string[] {
  if (name.endsWith(".")) return [name.slice(0, -1)];
  const longer = searchDomains.map((domain) => `${name}.${domain}`);
  const dots = name.split(".").length - 1;
  return dots >= ndots ? [name, ...longer] : [...longer, name];
}

/** Asks for one name after the other, until one has addresses. */
async function firstAnswer(
  resolver: Resolver,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ResolvedHost> {
  let failure: unknown;
  for (const name of names) {
    try {
      return await ask(resolver, name);
    } catch (thrown) {
      if (signal.aborted) throw signal.reason;
      // The server says that there is nothing. Any other failure would meet the next name, too.
      if (!isNoSuchName(thrown)) throw thrown;
      failure ??= thrown;
    }
  }
  throw failure;
}

/** A server that is not responsible for a search domain may refuse, and know the next name. */
const noSuchName = new Set(["ENOTFOUND", "ENODATA", "ESERVFAIL", "EBADNAME", "EREFUSED", "ENOTIMP"]);

function isNoSuchName(thrown: unknown): boolean {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return typeof code === "string" && noSuchName.has(code);
}

/** Asks for the addresses of both families. One family is enough if the other one takes long. */
async function ask(resolver: Resolver, name: string): Promise<ResolvedHost> {
  let others: NodeJS.Timeout | undefined;
  const questions = [
    ...(hasIpv6() ? [resolver.resolve6(name, { ttl: true })] : []),
    resolver.resolve4(name, { ttl: true }),
  ];
  const cancelOthers = () => {
    others ??= setTimeout(() => resolver.cancel(), runBounds.hostLookupOtherFamilyMsMax);
  };
  for (const question of questions) question.then(cancelOthers, () => {});
  const answers = await Promise.allSettled(questions);
  clearTimeout(others);
  const records = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (records.length > 0) return resolvedOf(records);
  const failures = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
  throw failures.find((failure) => !isNoSuchName(failure)) ?? failures.at(-1);
}

function resolvedOf(records: readonly RecordWithTtl[]): ResolvedHost {
  const addresses = records.map(({ address }) => ({ address, family: address.includes(":") ? 6 : 4 }));
  return { addresses, keptMs: Math.min(...records.map(({ ttl }) => ttl)) * 1_000 };
}

/**
 * IPv6 is only asked for where it can be used, as `AI_ADDRCONFIG` of `getaddrinfo` has it, or where
 * the system does not say: a sandbox may forbid the netlink socket that lists the interfaces.
 */
function hasIpv6(): boolean {
  let interfaces: ReturnType<typeof networkInterfaces>;
  try {
    interfaces = networkInterfaces();
  } catch {
    return true;
  }
  return Object.values(interfaces).some((addresses) =>
    addresses?.some(
      ({ family, internal, address }) => family === "IPv6" && !internal && !address.startsWith("fe80:"),
    ),
  );
}

/**
 * Reads a file again whenever it has changed. One that is not there is taken as empty. For one that
 * can't be read, what was read before counts. The reads are synchronous on purpose: they take
 * microseconds, and asynchronous ones would wait for libuv's threads, which any other work of the
 * process may hold.
 */
function parsedFile<Parsed>(path: string, parse: (text: string) => Parsed): () => Parsed {
  let seen = "";
  let parsed = parse("");
  return () => {
    const stat = statSync(path, { throwIfNoEntry: false });
    const now = stat ? `${stat.ino} ${stat.size} ${stat.mtimeMs}` : "";
    if (now === seen) return parsed;
    const text = stat ? textOf(path) : "";
    // A read that fails is tried again by the next look-up.
    if (text === undefined) return parsed;
    seen = now;
    parsed = parse(text);
    return parsed;
  };
}

function textOf(path: string): string | undefined {
  try {
    const file = openSync(path, "r");
    try {
      const bytes = Buffer.alloc(Math.min(fstatSync(file).size, runBounds.nameFileBytesMax));
      return bytes.toString("utf8", 0, readSync(file, bytes));
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

function parseHosts(text: string): Map<string, HostAddress[]> {
  const hosts = new Map<string, HostAddress[]>();
  for (const [address = "", ...names] of linesOf(text)) {
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of names.map((each) => each.toLowerCase())) {
      const addresses = hosts.get(name) ?? [];
      hosts.set(name, [...addresses, { address, family }]);
    }
  }
  return hosts;
}

/** What `/etc/resolv.conf` says about names that `/etc/hosts` does not have. */
interface ResolverSettings {
  /** Empty if the file names none. */
  readonly servers: readonly string[];
  readonly searchDomains: readonly string[];
  /** A name with at least this many dots is asked for as it is before it gets a search domain. */
  readonly ndots: number;
}

/** As `resolv.conf(5)` has it: of `domain` and `search` the last counts, and of its values all. */
function parseResolver(text: string): ResolverSettings {
  const servers: string[] = [];
  let searchDomains: string[] = [];
  let ndots = 1;
  for (const [key, ...values] of linesOf(text)) {
    if (key === "nameserver") servers.push(...values.slice(0, 1).filter(isServer));
    if (key === "search" || key === "domain") searchDomains = values.map((each) => each.toLowerCase());
    if (key === "options") ndots = ndotsOf(values) ?? ndots;
  }
  const usable = searchDomains.map((each) => each.replace(/^\.|\.$/g, "")).filter((each) => each !== "");
  return { servers, searchDomains: usable.slice(0, runBounds.searchDomainsMax), ndots };
}

/** An address, also with the port that c-ares allows. */
function isServer(value: string): boolean {
  const [, ipv6, ipv4 = "", port] = /^(?:\[(.+)\]|([\d.]+)):(\d{1,5})$/.exec(value) ?? [];
  if (port === undefined) return isIP(value) !== 0;
  return isIP(ipv6 ?? ipv4) === (ipv6 === undefined ? 4 : 6) && Number(port) <= 65_535;
}

function ndotsOf(options: readonly string[]): number | undefined {
  const value = options.map((option) => /^ndots:(\d{1,2})$/.exec(option)?.[1]).findLast(Boolean);
  return value === undefined ? undefined : Number(value);
}

/** The words of each line, without comments. */
function linesOf(text: string): string[][] {
  return text
    .split("\n")
    .map((line) => line.replace(/[#;].*/, "").trim())
    .filter((line) => line !== "")
    .map((line) => line.split(/\s+/));
}
