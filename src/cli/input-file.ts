import type { SettingsWorld } from "./connection.ts";
import { wrongUse } from "./failures.ts";
import type { Terminal } from "./terminal.ts";

/**
 * The JSON object in the file of `--input`, or in standard input for `-`, as it is written: the
 * digits of its numbers are for the server to judge. Throws for what is no object.
 */
export async function readInputFile(terminal: Terminal, world: SettingsWorld, path: string): Promise<string> {
  const json = path === "-" ? await terminal.readText(inputBytesMax) : readFile(world, path);
  const from = path === "-" ? "Standard input" : `The file ${path} of --input`;
  const value = parsed(json, from);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return json;
  throw wrongUse(`${from} holds no JSON object: put the input into one, such as {"city":"Oslo"}.`);
}

/** The most that KEYRUN_BODY_BYTES_MAX may be. */
export const inputBytesMax = 16 * 1024 * 1024;

function readFile(world: SettingsWorld, path: string): string {
  try {
    return world.readFile(path);
  } catch {
    throw wrongUse(`The file ${path} of --input can't be read. With - it is standard input.`);
  }
}

/** The parser's error quotes the file, which may hold a secret: only its place is kept. */
function parsed(json: string, from: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    const [at = ""] = /line \d+ column \d+/.exec(String(cause)) ?? [];
    const why = json.trim() === "" ? "it is empty" : at === "" ? "" : `see ${at}`;
    throw wrongUse(
      `${from} holds no JSON${why && `: ${why}`}. Write an object there, such as {"city":"Oslo"}.`,
    );
  }
}
