import type { RecordWithTtl } from "node:dns";
import { Resolver } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import type { HostAddress, NameFiles, ResolverSettings } from "./name-files.ts";
import { runBounds } from "./run-bounds.ts";

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

/**
 * Finds addresses as the system does: `/etc/hosts` first, then the name servers, with the search
 * domains. The servers are asked by c-ares, which works on sockets. `getaddrinfo` would hold one of
 * libuv's few threads for as long as a server is silent, and files, crypto and other look-ups would
 * wait for it. Other sources of `nsswitch.conf`, such as mDNS, are not asked.
 */
export function createResolveHost(files: NameFiles): ResolveHost {
  return async (host, signal) => {
    const name = host.toLowerCase();
    const relative = name.replace(/\.$/, "");
    const listed = files.addressesOf(relative) ?? (isLocalhost(relative) ? loopback : undefined);
    if (listed) return { addresses: listed, keptMs: undefined };
    const settings = files.resolver();
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
