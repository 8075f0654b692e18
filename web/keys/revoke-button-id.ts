/** The id of the Revoke button in a key's row: where the focus goes once the row above is gone. */
export function revokeButtonId(keyId: string): string {
  return `revoke-${keyId}`;
}
