/**
 * Thrown when the process can't start. The message is for the operator: what is wrong, and what to
 * do about it. Neither the message nor the cause holds a secret.
 */
export class StartRefused extends Error {
  override readonly name = "StartRefused";
}
