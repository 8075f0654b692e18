/**
 * Where this instance stands among those that share a limit: its place from 0 to `of` - 1, by order
 * of registration.
 */
export interface Standing {
  readonly place: number;
  readonly of: number;
}
