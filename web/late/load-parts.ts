import { useLayoutEffect } from "react";
import { createCell, useCell } from "../cell.ts";
import type { parts } from "./parts.ts";

export type Parts = typeof parts;

const state = createCell<Parts | "not-here" | "loading" | "failed">("not-here");

/** Fetches the parts, unless they are here or on their way; once that failed, tries again. Never throws. */
export async function loadParts(): Promise<void> {
  if (state.get() === "loading" || typeof state.get() === "object") return;
  state.set("loading");
  try {
    state.set((await import("./parts.ts")).parts);
  } catch {
    // No connection, or a newer Keyrun that no longer has this page's files.
    state.set("failed");
  }
}

/** Fetches the parts once the browser has nothing better to do, so that they are here before one is wanted. */
export function loadPartsWhenIdle(): void {
  // Safari has no requestIdleCallback.
  if ("requestIdleCallback" in window) requestIdleCallback(() => void loadParts());
  else setTimeout(() => void loadParts());
}

/** The parts, or how far they are; asks for them as soon as they are wanted. */
export function useParts(): Parts | "not-here" | "loading" | "failed" {
  // Before the paint: that an earlier attempt failed is not shown while there is a new one.
  useLayoutEffect(() => void loadParts(), []);
  return useCell(state);
}
