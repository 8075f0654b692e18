/** The request header in which a client of the internal listener says what it is. */
export const clientHeader = "keyrun-client";

/** The clients that may say so, and their names in records. */
const names = { "command-line": "the command line" } as const;

/** A client that Keyrun knows by a name of its own. */
export type DeclaredClient = keyof typeof names;

/**
 * The client that the header's value declares; undefined if there is none, or an unknown one.
 * Believe it only of a caller who has proved to be a service: it is no proof by itself.
 */
export function declaredClient(value: string | undefined): DeclaredClient | undefined {
  return value === "command-line" ? value : undefined;
}

/** The client's name in records. */
export function clientName(client: DeclaredClient): string {
  return names[client];
}
