import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

/** A real receiver of OTLP over HTTP, in JSON. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = [];
  let bytes = "";
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const text = (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString();
    bytes += `${JSON.stringify(request.headers)}${text}`;
    if (request.url === "/v1/traces") spans.push(...spansIn(JSON.parse(text)));
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    /** The variables with which OpenTelemetry's SDK exports to it, at once. */
    settings: otlpSettings(`http://127.0.0.1:${port}`),
    /** Everything that came, as text. */
    bytes: () => bytes,
    spans: () => spans,
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

export function otlpSettings(endpoint: string) {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_METRICS_EXPORTER: "none",
    OTEL_LOGS_EXPORTER: "none",
    OTEL_BSP_SCHEDULE_DELAY: "50",
  };
}

interface ReceivedSpan {
  readonly traceId: string;
  readonly parentSpanId?: string;
  readonly name: string;
}

interface Otlp {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly ReceivedSpan[] }[];
  }[];
}

function spansIn({ resourceSpans }: Otlp): ReceivedSpan[] {
  return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
}
