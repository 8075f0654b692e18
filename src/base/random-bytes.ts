/** `bytes` random bytes from a cryptographically secure source. */
export type RandomBytes = (bytes: number) => Uint8Array;
