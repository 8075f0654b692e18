/** What a start says to the person who started it. */

import { screenMissingWords, signInOffWords } from "../sign-in/session-access.ts";

/** What the start text says about the screen. */
export type ScreenNotice =
  /**
   * `newLink` makes a link that signs the owner in, once, and is a secret. Undefined if people sign
   * in at an issuer.
   */
  | { readonly kind: "open"; readonly url: string; readonly newLink: (() => string) | undefined }
  /** Nobody can sign in. */
  | { readonly kind: "off" }
  | { readonly kind: "not_built" };

/**
 * The text on standard output at start: the address of Keyrun, how to create a first key, and a
 * curl command. If there is no team yet, it also says how to create one.
 */
export function startWords(at: {
  readonly publicUrl: string;
  readonly grpcAddress: string;
  /** A team that exists; undefined if there is none. */
  readonly teamId: string | undefined;
  /** How to call the command line from the folder that Keyrun was started in. */
  readonly command: string;
  /** The service token is a setting, and so in no file of the data folder. */
  readonly isTokenSet: boolean;
  readonly screen: ScreenNotice;
  /** False where the text may be kept for others to read, as in a file, a pipe or a journal. */
  readonly isOnTerminal: boolean;
}): string {
  return `Keyrun is ready: ${at.publicUrl} (gRPC ${at.grpcAddress})

${keyWords(at)}
Run an app with it:
  curl -sS -X POST ${at.publicUrl}/api/apps/echo/run -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" -d '{"text":"hello"}'
${screenWords(at)}
`;
}

function keyWords({ teamId, command, isTokenSet }: Parameters<typeof startWords>[0]): string {
  const createKey = (team: string) => `  export KEYRUN_API_KEY=$(${command} keys create --team ${team})`;
  const where = isTokenSet
    ? "In a shell with the KEYRUN_SERVICE_TOKEN or KEYRUN_SERVICE_TOKEN_FILE of this Keyrun, make"
    : "Make";
  if (teamId !== undefined) return `${where} a key, which is shown this once:\n${createKey(teamId)}`;
  return `${where} the first team, and a key for it, which is shown this once:
  ${command} teams create my-team
${createKey("my-team")}`;
}

function screenWords({ screen, isOnTerminal, command }: Parameters<typeof startWords>[0]): string {
  if (screen.kind === "off") return signInOffWords;
  if (screen.kind === "not_built") {
    return screenMissingWords;
  }
  const { url, newLink } = screen;
  if (newLink === undefined) return `Manage keys in the browser:\n  ${url}`;
  const link = "a link that works once, for 10 minutes";
  return isOnTerminal
    ? `Manage keys in the browser, with ${link}:\n  ${newLink()}`
    : `Manage keys in the browser, with ${link}. This prints one:\n  ${command} sign-in-link`;
}

/** What a person at the terminal reads when Keyrun begins to stop. `why` may be a signal. */
export function stopWords(
  { drainDelayMs, drainMsMax }: { readonly drainDelayMs: number; readonly drainMsMax: number },
  why: string,
): string {
  const seconds = Math.ceil((drainDelayMs + drainMsMax) / 1_000);
  // The terminal has written ^C at the start of this line.
  const [lineFeed, again] = why === "SIGINT" ? ["\n", " again"] : ["", ""];
  return `${lineFeed}Keyrun stops. What still runs has ${seconds} s to end; Ctrl-C${again} ends it at once.\n`;
}
