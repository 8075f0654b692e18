// `limit`: what is left of a key's limits, as the headers of an answer say it.
import { CommandFailure } from "./failures.ts";
import { accepted, openPublicApi } from "./public-api.ts";
import { printTable } from "./table.ts";
import { answer, type CliWorld, type JsonOption, type Terminal } from "./terminal.ts";

/** A request that every key may make: its answer tells the limits, and it starts nothing. */
const request = { method: "GET", path: "/api/runs?page_size=1" } as const;

/** One limit, as `--json` prints it. */
interface LimitLeft {
  /** Whose limit it is. */
  readonly name: string;
  readonly limit: number;
  readonly windowSeconds: number;
  /** After the request that asked. */
  readonly remaining: number;
  /** In so many seconds one more is left. */
  readonly resetSeconds: number;
}

/** Prints the team's limit, and the key's if it has one of its own. */
export async function showLimit(world: CliWorld, terminal: Terminal, options: JsonOption): Promise<void> {
  const told = await openPublicApi(world).ask(request);
  const { ratelimit: left = "", "ratelimit-policy": policy = "" } = told.headers;
  const limits = readLimits(String(left), String(policy));
  // What is refused before the limit, as an unknown key is, tells none, or that of an address.
  if (limits.length === 0) {
    accepted(told);
    throw new CommandFailure("The answer says nothing of a limit: check KEYRUN_URL.");
  }
  const rows = limits.map(({ name, limit, remaining, resetSeconds }) => ({
    cells: [name, String(limit), String(remaining), `${resetSeconds} s`],
  }));
  const columns = ["LIMIT OF", "A MINUTE", "LEFT", "ONE MORE IN"].map((head) => ({ head }));
  await answer(terminal, options, { limits }, () => printTable(terminal, columns, rows));
}

/** The items of `RateLimit`, each with its one of `RateLimit-Policy`. */
function readLimits(left: string, policy: string): LimitLeft[] {
  const policies = new Map(
    [...policy.matchAll(/"(\w+)";q=(\d+);w=(\d+)/g)].map((found) => [found[1], found]),
  );
  return [...left.matchAll(/"(team|key)";r=(\d+);t=(\d+)/g)].map(([, name = "", remaining, reset]) => {
    const [, , limit, window] = policies.get(name) ?? [];
    return {
      name,
      limit: Number(limit),
      windowSeconds: Number(window),
      remaining: Number(remaining),
      resetSeconds: Number(reset),
    };
  });
}
