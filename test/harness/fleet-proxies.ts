import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { TcpProxy } from "./tcp-proxy.ts";

export type ProxyOrder = { readonly id: number } & (
  | { readonly do: "open"; readonly port: number }
  | { readonly do: "freeze" | "cut" | "mend" | "opened"; readonly proxy: number }
  | { readonly do: "freezeOn"; readonly proxy: number; readonly text: string }
  | { readonly do: "delay"; readonly proxy: number; readonly ms: number }
  | { readonly do: "retarget"; readonly proxy: number; readonly port: number }
);

export interface ProxyAnswer {
  readonly id: number;
  readonly value: number;
}

/** A proxy in another thread. Each method does what that of `TcpProxy` does, once it resolves. */
export interface FleetProxy extends Pick<TcpProxy, "port"> {
  freeze(): Promise<unknown>;
  freezeOn(text: string): Promise<unknown>;
  delay(ms: number): Promise<unknown>;
  cut(): Promise<unknown>;
  mend(): Promise<unknown>;
  /** New connections go to this port from now on. */
  retarget(port: number): Promise<unknown>;
  opened(): Promise<number>;
}

export interface FleetProxies {
  /** A proxy in front of this port of this machine. */
  open(port: number): Promise<FleetProxy>;
  close(): Promise<unknown>;
}

export async function openFleetProxies(): Promise<FleetProxies> {
  const worker = new Worker(new URL("proxy-thread.ts", import.meta.url));
  await once(worker, "online");
  const waiting = new Map<number, (value: number) => void>();
  worker.on("message", ({ id, value }: ProxyAnswer) => {
    waiting.get(id)?.(value);
    waiting.delete(id);
  });
  let ids = 0;
  let proxies = 0;
  const order = (what: Record<string, unknown>) =>
    new Promise<number>((resolve) => {
      const id = ids++;
      waiting.set(id, resolve);
      worker.postMessage({ ...what, id });
    });
  return {
    async open(target) {
      const proxy = proxies++;
      const port = await order({ do: "open", port: target });
      return {
        port,
        freeze: () => order({ do: "freeze", proxy }),
        freezeOn: (text) => order({ do: "freezeOn", proxy, text }),
        delay: (ms) => order({ do: "delay", proxy, ms }),
        cut: () => order({ do: "cut", proxy }),
        mend: () => order({ do: "mend", proxy }),
        retarget: (next) => order({ do: "retarget", proxy, port: next }),
        opened: () => order({ do: "opened", proxy }),
      };
    },
    close: () => worker.terminate(),
  };
}
