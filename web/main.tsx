import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/frame.css";
import "./styles/usage.css";
import "./styles/segments.css";
import "./styles/keys.css";
import "./styles/dialog.css";
import "./styles/try-it.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { startTransition } from "react";
import { createRoot } from "react-dom/client";
import { createQueryClient } from "./api/query-client.ts";
import { App } from "./app.tsx";
import { createServices, ServicesContext } from "./services.tsx";
import { takeSignInCode } from "./sign-in/redeem-code.ts";

// First of all, because the code must not stay in the address.
const signInCode = takeSignInCode(window);

const root = document.getElementById("root");
if (root === null) throw new Error("The document has no element #root.");
const services = createServices(window);
const screen = (
  <ServicesContext value={services}>
    <QueryClientProvider client={createQueryClient()}>
      <App signInCode={signInCode} />
    </QueryClientProvider>
  </ServicesContext>
);
// In a task of its own, and in slices, so that a slow device can answer a touch in between. The
// document shows the same meanwhile.
setTimeout(() => startTransition(() => createRoot(root).render(screen)));
