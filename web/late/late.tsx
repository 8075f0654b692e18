import type { ReactNode } from "react";
import { type Parts, useParts } from "./load-parts.ts";
import { PartsFailure } from "./parts-failure.tsx";

interface LateProps {
  /** Stands in the place until the parts are here. */
  readonly until?: ReactNode;
  readonly children: (parts: Parts) => ReactNode;
}

/** What is made of the parts that come late, in its place; or that they could not be fetched. */
export function Late({ until, children }: LateProps) {
  const parts = useParts();
  if (typeof parts === "object") return children(parts);
  return parts === "failed" ? <PartsFailure /> : until;
}
