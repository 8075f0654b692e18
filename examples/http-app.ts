/**
 * An app behind HTTP that answers in capitals. Start it, and tell Keyrun where it is:
 *
 *     npm run example
 *     ./keyrun apps create shout --backend http --url http://127.0.0.1:9000/run
 */
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const server = createServer(async (request, response) => {
  if (request.method !== "POST" || request.url !== "/run") {
    response.writeHead(404).end();
    return;
  }
  // Keyrun closes the connection when it no longer needs the answer. Stop working then.
  const gone = new AbortController();
  response.on("close", () => gone.abort());

  // Keyrun sends {"runId", "teamId", "appId", "keyId", "text"}. Answer 200 with {"text"}, or refuse
  // with 422 and {"error":{"message"}}: nearly anything else is a failed run (docs/apps.md).
  try {
    const run = (await json(request)) as { text: string };
    const text = await shout(run.text, {
      signal: gone.signal,
      msLeft: Number(request.headers["x-keyrun-deadline-ms"]),
    });
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ text }));
  } catch (error) {
    console.error(`The run ${request.headers["x-request-id"]} failed:`, error);
    response.writeHead(500).end();
  }
});

/** Your app goes here. It has `msLeft` milliseconds, and may stop when the signal is aborted. */
async function shout(text: string, limits: { signal: AbortSignal; msLeft: number }): Promise<string> {
  limits.signal.throwIfAborted();
  return text.toUpperCase();
}

server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") {
    console.log(`The app listens on http://127.0.0.1:${address.port}/run`);
  }
});
