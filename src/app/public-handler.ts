/**
 * The HTTP side of the public listener, in the order in which a path is matched: health, REST,
 * sign-in, the screen.
 */

import { createTranscoder } from "#transcode/transcoder.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { credentialOf, requestBytesMaxOf } from "../auth/policy.ts";
import type { Clock } from "../base/clock.ts";
import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import { createScreenHandler, type ScreenFiles } from "../http/screen.ts";
import { compress, createStaticBody } from "../http/static-body.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { createGuardHandler } from "../rest/guard-handler.ts";
import { openApiFacts, writeOpenApi } from "../rest/openapi.ts";
import { createOperationsHandler } from "../rest/operations-handler.ts";
import { createRestHandler } from "../rest/rest-handler.ts";
import { createRestMethods } from "../rest/rest-methods.ts";
import type { Readiness } from "../rpc/health.ts";
import type { Config } from "../settings/config.ts";
import { isLoopbackHost } from "../settings/host.ts";
import { createSignInHandler } from "../sign-in/sign-in-handler.ts";
import type { MakePublicHandler } from "./listeners.ts";
import type { Services } from "./services.ts";
import type { SignIn } from "./sign-in.ts";
import type { ScreenNotice } from "./start-words.ts";

/** The public listener's HTTP: operations, the screen, then REST. */
export async function createPublicHandler(parts: {
  readonly config: Config;
  readonly clock: Clock;
  readonly version: string;
  readonly metrics: Pick<Metrics, "guardPassed">;
  readonly readiness: Readiness;
  readonly services: Services;
  readonly withScreen: WithScreen;
}): Promise<MakePublicHandler> {
  const { config, clock, version, metrics, readiness, services, withScreen } = parts;
  const annotated = services.served.map(({ service }) => service);
  const transcoder = createTranscoder(annotated);
  const plain = Buffer.from(writeOpenApi(openApiFacts(config, version), config.keyHeader));
  const compressed = await compress(plain);
  const openApi = createStaticBody(plain, { contentType: "application/json", compressed });

  return ({ allowance, outcomes }): HttpHandler => {
    const rest = createRestHandler({
      clock,
      transcoder,
      methods: createRestMethods({ ...services, runs: services.runService }),
      policy: { credentialOf: (method) => credentialOf(method, "public"), requestBytesMaxOf },
      admit: services.admit,
      allowance,
      outcomes,
      bodyBytesMax: config.bodyBytesMax,
    });
    const api = createGuardHandler({
      clock,
      admit: services.admit,
      allowance,
      findApp: services.findApp,
      onPassed: metrics.guardPassed,
      next: rest,
    });
    const others = createOperationsHandler({ readiness, openApi, next: withScreen(rest) });
    // A run and a guard skip the handlers of the other paths. A path in another spelling, such as
    // /%61pi/, reaches REST behind them.
    return (request) => (request.target.startsWith("/api/") ? api(request) : others(request));
  };
}

/**
 * Puts the screen and sign-in before a handler. Where nobody can sign in, there is no screen
 * either, but its documentation.
 */
type WithScreen = (next: HttpHandler) => HttpHandler;

export function createWithScreen(
  signIn: SignIn & {
    readonly audit: AuditLog;
    readonly clock: Clock;
    readonly publicUrl: string | undefined;
  },
  files: ScreenFiles | undefined,
): WithScreen {
  const { access, method, address, sessions, accessOf, audit, clock, publicUrl } = signIn;
  return (next) => {
    if (!access || !method) {
      const addressOf = publicUrl === undefined ? addressAsked : address;
      return files ? createScreenHandler({ files, address: addressOf, clock, next }) : next;
    }
    const documents = files
      ? createScreenHandler({
          files,
          address,
          clock,
          next,
          isOwnHost: (request) => access.isOwnHost((name) => request.header(name)),
        })
      : next;
    return createSignInHandler({ address, sessions, method, audit, accessOf, next: documents });
  };
}

/**
 * The address that the caller has asked, for a Keyrun that does not know its own. Off the loopback
 * it is taken for one of HTTPS, which security.txt needs (RFC 9116, section 2.5.3), but browsers
 * are not told to use HTTPS alone.
 */
function addressAsked(request: HttpRequest): { readonly origin: string; readonly secure: boolean } {
  const host = request.header(":authority") ?? request.header("host") ?? "localhost";
  const url = new URL(`https://${host}`);
  return { origin: isLoopbackHost(url.hostname) ? `http://${host}` : url.origin, secure: false };
}

/** What is said of the screen at start. Makes no link yet. */
export function screenNotice(signIn: SignIn, files: ScreenFiles | undefined): ScreenNotice {
  if (signIn.mode === "off") return { kind: "off" };
  if (!files) return { kind: "not_built" };
  const { address, links } = signIn;
  return { kind: "open", url: address().origin, newLink: links && (() => links.create().url) };
}
