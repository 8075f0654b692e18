import type { Key } from "../../api/messages.ts";
import { requestCount } from "../../usage/usage-words.ts";
import { isActive } from "../key-pages.ts";
import { Fact, When } from "./fact.tsx";

interface LifeFactsProps {
  readonly apiKey: Key;
  /** The keys that the page has read. */
  readonly known: readonly Key[];
}

/** When the key ends, which keys it replaces and is replaced by, and what it is restricted to. */
export function LifeFacts({ apiKey, known }: LifeFactsProps) {
  const { expireTime, replacesKeyId, replacedByKeyId, appIds = [], requestsPerMinute } = apiKey;
  return (
    <>
      {isActive(apiKey) && (
        <Fact name={replacedByKeyId ? "Ends" : "Expires"}>
          {expireTime ? <When time={expireTime} ahead /> : <span className="muted">Never</span>}
        </Fact>
      )}
      {replacedByKeyId && (
        <Fact name="Replaced by">
          <OtherKey keyId={replacedByKeyId} known={known} />
        </Fact>
      )}
      {replacesKeyId && (
        <Fact name="Replaces">
          <OtherKey keyId={replacesKeyId} known={known} />
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
    </>
  );
}

/** Another key as the list shows it, or by its id if the page has not read it. */
function OtherKey({ keyId, known }: { keyId: string; known: readonly Key[] }) {
  const key = known.find(({ id }) => id === keyId);
  if (key === undefined) return <code>{keyId}</code>;
  return (
    <>
      <code>{key.redactedValue}</code>
      {key.label && (
        <>
          {" "}
          <bdi className="muted">{key.label}</bdi>
        </>
      )}
    </>
  );
}
