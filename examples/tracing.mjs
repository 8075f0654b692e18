// Brings OpenTelemetry's SDK into Keyrun's process: `NODE_OPTIONS="--import …/tracing.mjs"`. It
// reads OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT. Copy it to a folder of
// your own, and install the SDK there: `npm install @opentelemetry/api @opentelemetry/sdk-node`.
import { NodeSDK } from "@opentelemetry/sdk-node";

new NodeSDK({ serviceName: "keyrun" }).start();
