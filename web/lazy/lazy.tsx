import type { ReactNode } from "react";
import { type Parts, useParts } from "./load-parts.ts";
import { PartsFailure } from "./parts-failure.tsx";

interface LazyProps {
  /** Shown until the parts are loaded. */
  readonly until?: ReactNode;
  readonly children: (parts: Parts) => ReactNode;
}

/** Renders `children` with the lazy parts, or says that the parts could not be loaded. */
export function Lazy({ until, children }: LazyProps) {
  const parts = useParts();
  if (typeof parts === "object") return children(parts);
  return parts === "failed" ? <PartsFailure /> : until;
}
