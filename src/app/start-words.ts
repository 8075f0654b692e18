import { signInOffWords } from "../sign-in/session-service.ts";

/** What the start text says about the screen. */
export type ScreenNotice =
  /** `link` signs the owner in, once, and is a secret. Undefined if people sign in at an issuer. */
  | { readonly kind: "open"; readonly url: string; readonly link: string | undefined }
  /** Nobody can sign in. */
  | { readonly kind: "off" }
  | { readonly kind: "not_built" };

/**
 * The text on standard output at start: the address of Keyrun, how to create a first key, and a
 * curl command.
 */
export function startWords(at: {
  readonly publicUrl: string;
  readonly grpcAddress: string;
  readonly demo: boolean;
  readonly screen: ScreenNotice;
}): string {
  const team = at.demo ? "demo" : "<team_id>";
  return `Keyrun is ready: ${at.publicUrl} (gRPC ${at.grpcAddress})

Make a key, which is shown this once:
  export KEYRUN_API_KEY=$(./keyrun keys create --team ${team})
Run an app with it:
  curl -sS -X POST ${at.publicUrl}/api/apps/echo/run -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" -d '{"text":"hello"}'
${screenWords(at.screen)}
`;
}

function screenWords(screen: ScreenNotice): string {
  if (screen.kind === "off") return signInOffWords;
  if (screen.kind === "not_built") {
    return "The screen is not built yet: run `npm run build:web`, and start again.";
  }
  if (screen.link === undefined) return `Manage keys in the browser:\n  ${screen.url}`;
  return `Manage keys in the browser, with a link that works once, for 10 minutes:\n  ${screen.link}`;
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
