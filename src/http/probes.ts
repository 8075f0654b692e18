/** Whether it is a route that balancers ask every few seconds. It is neither logged nor traced. */
export function isProbe(route: string | undefined): boolean {
  return route !== undefined && probes.test(route);
}

const probes = /^\/(?:healthz|readyz|grpc\.health\.v1\.Health\/.*)$/;
