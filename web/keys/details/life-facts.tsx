import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { quotaSpan } from "../../usage/quota-words.ts";
import { requestCount } from "../../usage/usage-words.ts";
import { useRpcPages } from "../../use-rpc.ts";
import { isActive, keysOf } from "../key-pages.ts";
import { Fact, When } from "./fact.tsx";

interface LifeFactsProps {
  readonly apiKey: Key;
  /** The keys that the page has read. */
  readonly known: readonly Key[];
  /** Opens the details of another key. */
  onOther(key: Key): void;
}

/** When the key ends, which keys it replaces and is replaced by, and what it is restricted to. */
export function LifeFacts({ apiKey, known, onOther }: LifeFactsProps) {
  const { expireTime, replacesKeyId, replacedByKeyId, appIds = [], requestsPerMinute, quota } = apiKey;
  return (
    <>
      {isActive(apiKey) && (
        <Fact name={replacedByKeyId ? "Ends" : "Expires"}>
          {expireTime ? <When time={expireTime} ahead /> : <span className="muted">Never</span>}
        </Fact>
      )}
      {replacedByKeyId && (
        <Fact name="Replaced by">
          <OtherKey keyId={replacedByKeyId} {...{ apiKey, known, onOther }} />
        </Fact>
      )}
      {replacesKeyId && (
        <Fact name="Replaces">
          <OtherKey keyId={replacesKeyId} {...{ apiKey, known, onOther }} />
        </Fact>
      )}
      {appIds.length > 0 && (
        <Fact name="Apps">
          <span className="app-ids">
            {appIds.map((appId) => (
              <code key={appId}>{appId}</code>
            ))}
          </span>
        </Fact>
      )}
      {requestsPerMinute !== undefined && (
        <Fact name="Limit">{requestCount(requestsPerMinute)} a minute</Fact>
      )}
      {quota !== undefined && (
        <Fact name="Quota">
          {requestCount(Number(quota.limit))} a {quotaSpan(quota.period)} of UTC
        </Fact>
      )}
    </>
  );
}

/** Leads to another key, which the list may not show; its id where there is none any more. */
function OtherKey({ keyId, apiKey, known, onOther }: { keyId: string } & LifeFactsProps) {
  const { teamId } = apiKey;
  const isKnown = known.some(({ id }) => id === keyId);
  const query = { teamId, pageSize: 1, showRevoked: true, query: keyId };
  const { data } = useRpcPages(rpcs.listKeys, query, { enabled: !isKnown });
  const key = [...known, ...(data ? keysOf(data) : [])].find(({ id }) => id === keyId);
  if (key === undefined) return <code>{keyId}</code>;
  return (
    <button type="button" className="link-button" onClick={() => onOther(key)}>
      <code>{key.redactedValue}</code> {key.label && <bdi className="muted">{key.label}</bdi>}
    </button>
  );
}
