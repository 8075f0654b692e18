/** Whether this process is the one that may serve the store. */
export interface InstanceGuard {
  /** True while no other process can have taken the store over: a request may be admitted now. Cheap. */
  holds(): boolean;
  /** Leaves the store to the next process; `holds` is false from then on. Repeating it does nothing. */
  release(): Promise<void>;
}
