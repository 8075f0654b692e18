/**
 * Whether an SDK of OpenTelemetry was registered, by a module that the operator loads before
 * Keyrun. The API is not asked, because then it would have to be loaded: it keeps what is
 * registered under this name for all of its copies in a process, whatever their version.
 */
export function isSdkRegistered(): boolean {
  const registered: unknown = Reflect.get(globalThis, Symbol.for("opentelemetry.js.api.1"));
  return typeof registered === "object" && registered !== null && "trace" in registered;
}
