// A thread with the proxies of a fleet.
import { openTcpProxy, type TcpProxy } from "./tcp-proxy.ts";
import { serveThread } from "./thread.ts";

const proxies: { readonly target: { host: string; port: number }; readonly proxy: TcpProxy }[] = [];

const api = {
  /** A proxy in front of this port of this machine. The others name it by its place. */
  async open(port: number): Promise<{ place: number; port: number }> {
    const target = { host: "127.0.0.1", port };
    const proxy = await openTcpProxy(target);
    return { place: proxies.push({ target, proxy }) - 1, port: proxy.port };
  },
  freeze: (place: number) => proxies[place]?.proxy.freeze(),
  freezeOn: (place: number, text: string) => proxies[place]?.proxy.freezeOn(text),
  delay: (place: number, ms: number) => proxies[place]?.proxy.delay(ms),
  cut: (place: number) => proxies[place]?.proxy.cut(),
  mend: (place: number) => proxies[place]?.proxy.mend(),
  opened: (place: number) => proxies[place]?.proxy.opened() ?? 0,
  /** New connections go to this port from now on. */
  retarget(place: number, port: number): void {
    proxies[place]!.target.port = port;
  },
};

export type ProxyApi = typeof api;

serveThread(api);
