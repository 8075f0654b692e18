import type { Keyrun } from "../harness/keyrun.ts";

/** A request to a guard, where it differs from a good GET of `orders`. */
export interface GuardAsk {
  readonly method?: string;
  readonly target?: string;
  readonly version?: "1.0" | "1.1";
  readonly host?: string | undefined;
  /** The value of a key; none is sent if it is "". */
  readonly key?: string;
  /** Further header lines. */
  readonly headers?: readonly string[];
  readonly body?: string;
}

/** The bytes of such a request over HTTP/1. */
export function asks(given: GuardAsk): string {
  const { method = "GET", target = "/api/apps/orders/guard", version = "1.1", key = "", body = "" } = given;
  const host = "host" in given ? given.host : "localhost";
  const lines = [
    `${method} ${target} HTTP/${version}`,
    ...(host === undefined ? [] : [`Host: ${host}`]),
    ...(key === "" ? [] : [`Authorization: Bearer ${key}`]),
    ...(given.headers ?? []),
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

export async function createGuard(
  { apps }: Pick<Keyrun, "apps">,
  id: string,
  teamIds: string[] = [],
): Promise<void> {
  await apps.createApp({ app: { id, teamIds, backend: { kind: { case: "guard", value: {} } } } });
}

/** Asks a guard once, as a proxy does. */
export async function guardOnce(
  publicUrl: string,
  {
    value,
    appId = "orders",
    path = "",
    headers = {},
  }: {
    readonly value: string;
    readonly appId?: string;
    readonly path?: string;
    readonly headers?: Readonly<Record<string, string>>;
  },
) {
  const answer = await fetch(`${publicUrl}/api/apps/${appId}/guard${path}`, {
    headers: { authorization: `Bearer ${value}`, ...headers },
  });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}
