import { useLayoutEffect } from "react";
import { createCell, useCell } from "../cell.ts";
import type { parts } from "../parts.ts";

export type Parts = typeof parts;

const state = createCell<Parts | "not-loaded" | "loading" | "failed">("not-loaded");

/**
 * Loads the parts, unless they are loaded or loading. Tries again after a failure. Never throws.
 */
export async function loadParts(): Promise<void> {
  if (state.get() === "loading" || typeof state.get() === "object") return;
  state.set("loading");
  try {
    // The only import that goes back up. It is deferred, so the first view holds none of the parts.
    state.set((await import("../parts.ts")).parts);
  } catch {
    // There is no connection, or a newer Keyrun no longer has the files of this page.
    state.set("failed");
  }
}

/** Loads the parts when the browser is idle, so that they are there before one is needed. */
export function loadPartsWhenIdle(): void {
  // Safari has no requestIdleCallback.
  if ("requestIdleCallback" in window) requestIdleCallback(() => void loadParts());
  else setTimeout(() => void loadParts());
}

/** The parts, or the state of their loading. Starts to load them. */
export function useParts(): Parts | "not-loaded" | "loading" | "failed" {
  // Before the paint, so that an earlier failure isn't shown during a new attempt.
  useLayoutEffect(() => void loadParts(), []);
  return useCell(state);
}
