// A thread with the proxies of a fleet: what a test does in its own thread must not slow them down.
import { parentPort } from "node:worker_threads";
import type { ProxyAnswer, ProxyOrder } from "./fleet-proxies.ts";
import { openTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

const proxies: { readonly target: { host: string; port: number }; readonly proxy: TcpProxy }[] = [];

async function obey(order: ProxyOrder): Promise<number> {
  if (order.do === "open") {
    const target = { host: "127.0.0.1", port: order.port };
    const proxy = await openTcpProxy(target);
    proxies.push({ target, proxy });
    return proxy.port;
  }
  const { proxy, target } = proxies[order.proxy]!;
  if (order.do === "delay") proxy.delay(order.ms);
  else if (order.do === "freezeOn") proxy.freezeOn(order.text);
  else if (order.do === "retarget") target.port = order.port;
  else if (order.do !== "opened") proxy[order.do]();
  return proxy.opened();
}

parentPort?.on("message", async (order: ProxyOrder) => {
  const answer: ProxyAnswer = { id: order.id, value: await obey(order) };
  parentPort?.postMessage(answer);
});
