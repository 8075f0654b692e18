// Finds the addresses of one name, with the files that are named, and prints them.
import { createResolveHost } from "#src/run/resolve-host.ts";

const [host = "", hosts = "", resolver = ""] = process.argv.slice(2);
const resolve = createResolveHost({ hosts, resolver });
const { addresses } = await resolve(host, new AbortController().signal);
process.stdout.write(addresses.map(({ address }) => address).join());
