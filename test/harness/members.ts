import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createBrowser } from "./browser.ts";
import type { Keyrun } from "./keyrun.ts";

/** A new one-time link of a running Keyrun, as the command line asks for it. */
export async function newSignInLink({ internalUrl, serviceToken }: Keyrun): Promise<string> {
  const interceptors = [bearer(serviceToken)];
  const transport = createGrpcTransport({ baseUrl: internalUrl, interceptors });
  return (await createClient(SessionService, transport).createSignInLink({})).url;
}

/** The owner, in a browser of their own, signed in by a one-time link. */
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

/** Sends the token with every call. */
export function bearer(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
}
