import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { soon } from "./soon.ts";

/** A span as it came, with its attributes as one object. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  /** 2 for a server, 3 for a client, 1 for work within. */
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly startMs: number;
  readonly endMs: number;
}

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
    /** The spans of a trace, once those of as many requests have come: they end last. */
    async trace(traceId: string, requests = 1): Promise<ReceivedSpan[]> {
      const of = () => spans.filter((span) => span.traceId === traceId);
      await soon(() => of().filter(({ kind }) => kind === serverKind).length).toBeGreaterThanOrEqual(
        requests,
      );
      return of().sort((one, other) => one.startMs - other.startMs);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

const serverKind = 2;

export function otlpSettings(endpoint: string) {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_METRICS_EXPORTER: "none",
    OTEL_LOGS_EXPORTER: "none",
    OTEL_BSP_SCHEDULE_DELAY: "50",
  };
}

interface Otlp {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly Sent[] }[] }[];
}

interface Sent extends Omit<ReceivedSpan, "attributes" | "startMs" | "endMs"> {
  readonly attributes?: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

function spansIn({ resourceSpans }: Otlp): ReceivedSpan[] {
  const sent = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
  return sent.map((span) => ({
    ...span,
    parentSpanId: span.parentSpanId ?? "",
    links: span.links ?? [],
    status: span.status ?? {},
    attributes: Object.fromEntries(
      (span.attributes ?? []).map(({ key, value }) => {
        const [plain] = Object.values(value);
        return [key, "intValue" in value ? Number(plain) : plain];
      }),
    ),
    startMs: Number(span.startTimeUnixNano) / 1e6,
    endMs: Number(span.endTimeUnixNano) / 1e6,
  }));
}
