import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { runBounds } from "./run-bounds.ts";

/** An address of a host, in the form in which `node:net` takes it. */
export interface HostAddress {
  readonly address: string;
  readonly family: number;
}

/** What `/etc/resolv.conf` says about names that `/etc/hosts` does not have. */
export interface ResolverSettings {
  /** Empty if the file names none. */
  readonly servers: readonly string[];
  readonly searchDomains: readonly string[];
  /** A name with at least this many dots is asked for as it is before it gets a search domain. */
  readonly ndots: number;
}

/** The two files with which a system says how names become addresses. */
export interface NameFiles {
  /** The addresses that `/etc/hosts` has for a name in lower case. */
  addressesOf(name: string): readonly HostAddress[] | undefined;
  resolver(): ResolverSettings;
}

export interface NameFilePaths {
  readonly hosts: string;
  readonly resolver: string;
}

const systemNameFiles: NameFilePaths = { hosts: "/etc/hosts", resolver: "/etc/resolv.conf" };

/**
 * Reads the files again whenever they have changed. A file that is not there is taken as empty. For
 * one that can't be read, what was read before counts.
 * The reads are synchronous on purpose: they take microseconds, and asynchronous ones would wait
 * for libuv's threads, which any other work of the process may hold.
 */
export function createNameFiles(paths: NameFilePaths = systemNameFiles): NameFiles {
  const hosts = parsedFile(paths.hosts, parseHosts);
  const resolver = parsedFile(paths.resolver, parseResolver);
  return { addressesOf: (name) => hosts().get(name), resolver };
}

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
