import { bounds } from "../config.ts";
import { type CookieFound, readCookie, writeCookie } from "./cookies.ts";
import type { ScreenAddress } from "./screen-address.ts";

/** The cookie that carries a session's token. */
export interface SessionCookie {
  readonly name: string;
  /** From the request's `Cookie` header. */
  read(header: string | undefined): CookieFound;
  /** The `Set-Cookie` that hands the token to the browser, for as long as a session can last. */
  write(token: string): string;
  /** The `Set-Cookie` that takes it back. */
  clear(): string;
}

/**
 * `__Host-keyrun` over HTTPS, which no neighbouring host and no plain HTTP can plant (RFC 6265bis, section 4.1.3.2);
 * `keyrun-<port>` over HTTP on the loopback, where two servers of one machine would share a plainer name.
 */
export function createSessionCookie({ secure, port }: ScreenAddress): SessionCookie {
  const name = secure ? "__Host-keyrun" : `keyrun-${port}`;
  return {
    name,
    read: (header) => readCookie(header, name),
    write: (token) => writeCookie({ name, value: token }, { secure, maxAgeS: bounds.sessionMsMax / 1_000 }),
    clear: () => writeCookie({ name, value: "" }, { secure, maxAgeS: 0 }),
  };
}
