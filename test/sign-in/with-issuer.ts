import { createClient } from "@connectrpc/connect";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { type Browser, createBrowser } from "../harness/browser.ts";
import { freePort } from "../harness/free-port.ts";
import { passIssuer, startIssuer } from "../harness/issuer.ts";
import { startKeyrun } from "../harness/keyrun.ts";

type Options = Parameters<typeof startIssuer>[1] & { readonly settings?: Readonly<Record<string, string>> };

export const email = "ada@example.com";

/** An issuer with the account `ada`, and a Keyrun whose people sign in there. */
export async function startWithIssuer({ settings, ...options }: Options = {}) {
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const issuer = await startIssuer(`${publicUrl}/sign-in/callback`, options);
  issuer.state.accounts.set("ada", { email, email_verified: true });
  const keyrun = await startKeyrun({
    settings: { KEYRUN_PORT: String(port), ...issuer.settings(publicUrl), ...settings },
  });
  return {
    publicUrl,
    issuer,
    keyrun,
    /** A new browser that has passed the issuer, and where the issuer sends it back to. */
    async begin(account = "ada", path = "/sign-in") {
      const browser = createBrowser(publicUrl);
      return { browser, callback: await passIssuer(browser, publicUrl + path, account) };
    },
    async close() {
      await keyrun.close();
      await issuer.close();
    },
  };
}

export function sessionOf(browser: Browser) {
  return createClient(SessionService, browser.transport).getSession({});
}
