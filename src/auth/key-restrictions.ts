/** What a key may not do of what its team may. It is fixed when the key is created. */
export interface KeyRestrictions {
  /** The only apps that the key may run; all of its team's where it is empty. */
  readonly appIds: readonly string[];
  /** How many requests a minute the key may make; null: only the team's limit counts. */
  readonly requestsPerMinute: number | null;
}

/** Whether the key may run the app, if its team may. */
export function mayRunApp(restrictions: KeyRestrictions | null, appId: string): boolean {
  return restrictions === null || restrictions.appIds.length === 0 || restrictions.appIds.includes(appId);
}
