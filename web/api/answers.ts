import { RpcError, rpcErrorOf } from "./rpc-error.ts";

/** The error of an answer that is a refusal. */
export async function errorOf(response: Response): Promise<RpcError> {
  return rpcErrorOf(await response.json().catch(() => undefined), factsOf(response));
}

export function isOf(response: Response, type: string): boolean {
  return response.headers.get("content-type")?.split(";")[0] === type;
}

/** Something between browser and Keyrun has answered, such as the sign-in page of a network. */
export function notConnect(response: Response): RpcError {
  return new RpcError({ code: "unknown", requestId: factsOf(response).requestId });
}

export function factsOf({ status, headers }: Response) {
  return { status, requestId: headers.get("x-request-id") };
}
