import { bounds } from "../bounds.ts";
import { type CookieFound, readCookie, writeCookie } from "./cookies.ts";
import type { ScreenAddress } from "./screen-address.ts";

/** The cookie that holds a session's token. */
export interface SessionCookie {
  readonly name: string;
  /** Reads the cookie from the `Cookie` header. */
  read(header: string | undefined): CookieFound;
  /**
   * Returns the `Set-Cookie` value that stores the token, for the longest time that a session can
   * last.
   */
  write(token: string): string;
  /** Returns the `Set-Cookie` value that removes the token. */
  clear(): string;
}

/**
 * The name is `__Host-keyrun` over HTTPS, which neither a neighbouring host nor plain HTTP can set
 * (RFC 6265bis, section 4.1.3.2). It is `keyrun-<port>` over HTTP on loopback, because two servers
 * on one machine share their cookies.
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
