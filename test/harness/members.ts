import { createClient } from "@connectrpc/connect";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createBrowser } from "./browser.ts";
import type { Keyrun } from "./keyrun.ts";

/** A new one-time sign-in link of a running Keyrun. */
export async function newSignInLink({ sessions }: Keyrun): Promise<string> {
  return (await sessions.createSignInLink({})).url;
}

/** The owner in a new browser, signed in by a one-time link. */
export async function signInOwner(keyrun: Keyrun) {
  const browser = createBrowser(keyrun.publicUrl);
  const { status } = await browser.openLink(await newSignInLink(keyrun));
  if (status !== 204) throw new Error(`the link was answered ${status}`);
  return {
    browser,
    sessions: createClient(SessionService, browser.transport),
    keys: createClient(KeyService, browser.transport),
    teams: createClient(TeamService, browser.transport),
  };
}
