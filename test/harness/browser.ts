import { once } from "node:events";
import { type IncomingHttpHeaders, request as send } from "node:http";
import { text } from "node:stream/consumers";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

export interface PageAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface PageRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * What a browser does by itself: it keeps cookies by name, sends them back, and says from which
 * site a request comes.
 */
export interface Browser {
  readonly cookies: Map<string, string>;
  /** Loads a URL. Follows no redirect. */
  load(url: string, request?: PageRequest): Promise<PageAnswer>;
  /** Loads a URL and follows at most ten redirects. Returns the last answer and its URL. */
  visit(url: string, request?: PageRequest): Promise<PageAnswer & { readonly url: string }>;
  /** Opens a one-time link as the page does: exchanges the code in its fragment. */
  openLink(link: string): Promise<PageAnswer>;
  /** For the calls that the page makes. */
  readonly transport: Transport;
}

export function createBrowser(origin: string): Browser {
  const cookies = new Map<string, string>();
  const cookieHeader = () => [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");

  async function load(
    url: string,
    { method = "GET", headers = {}, body }: PageRequest = {},
  ): Promise<PageAnswer> {
    const own = { ...(cookies.size > 0 && { cookie: cookieHeader() }), "sec-fetch-site": "same-origin" };
    const request = send(url, { method, headers: { ...own, ...headers } });
    request.end(body);
    const [response] = await once(request, "response");
    keep(cookies, response.headers["set-cookie"]);
    return { status: response.statusCode, headers: response.headers, body: await text(response) };
  }

  async function visit(start: string, request?: PageRequest) {
    let url = start;
    for (let hops = 0; hops < 10; hops++) {
      const answer = await load(url, hops === 0 ? request : {});
      if (answer.status < 300 || answer.status > 399) return { ...answer, url };
      url = new URL(answer.headers.location ?? "", url).href;
    }
    throw new Error(`redirected for ever: ${url}`);
  }

  const asPage: Interceptor = (next) => async (request) => {
    request.header.set("cookie", cookieHeader());
    request.header.set("sec-fetch-site", "same-origin");
    const response = await next(request);
    keep(cookies, response.header.getSetCookie());
    return response;
  };
  return {
    cookies,
    load,
    visit,
    openLink: (link) =>
      load(`${origin}/sign-in/code`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ code: new URLSearchParams(new URL(link).hash.slice(1)).get("code") }),
      }),
    transport: createConnectTransport({ baseUrl: origin, httpVersion: "1.1", interceptors: [asPage] }),
  };
}

function keep(cookies: Map<string, string>, setCookies: readonly string[] = []): void {
  for (const setCookie of setCookies) {
    const [pair = "", ...attributes] = setCookie.split("; ");
    const name = pair.slice(0, pair.indexOf("="));
    if (attributes.includes("Max-Age=0")) cookies.delete(name);
    else cookies.set(name, pair.slice(name.length + 1));
  }
}
