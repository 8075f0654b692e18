import type { ReactNode } from "react";
import { ProductMark } from "./product-mark.tsx";

/** What stands around a page of someone who is not signed in. */
export function PlainFrame({ children }: { children: ReactNode }) {
  return (
    <div className="plain-frame">
      <header>
        <ProductMark />
      </header>
      <main id="main">{children}</main>
    </div>
  );
}
