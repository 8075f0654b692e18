/** Whether this process should get new work, as `/readyz` and `grpc.health.v1` answer. */
export interface Readiness {
  /** True between the end of the start and the beginning of the drain. */
  ready(): boolean;
  /** Why it is not ready, in words for the operator; undefined while it is ready. */
  why(): string | undefined;
  /** Calls the listener after each change of `ready()`, until the returned function is called. */
  onChange(listener: () => void): () => void;
}
