export interface ConnectPost {
  /** An API key, or the service token. */
  readonly token: string;
  readonly body: string | Buffer;
  /** Added to the headers of a JSON call. Replaces those of the same name. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A unary Connect call by `fetch`, for what a client would not send or would not show. */
export function postConnect(
  url: string,
  rpc: string,
  { token, body, headers }: ConnectPost,
): Promise<Response> {
  return fetch(`${url}/keyrun.v1.${rpc}`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${token}`,
      "Content-Type": "application/json",
      "Connect-Protocol-Version": "1",
      ...headers,
    },
    body: new Uint8Array(Buffer.from(body)),
  });
}
